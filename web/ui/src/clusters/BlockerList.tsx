import { Alert, Button } from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import type { Readiness } from './api';
import { withoutKey, type Blocker } from './blockers';

type Props = {
  blockers: Blocker[];
  /** The step of the wizard on which a person removes this blocker, if there is one. */
  stepOf?: (blocker: Blocker) => { name: string; open: () => void } | undefined;
};

/** What blocks an installation, with a link to the host or to the step of the wizard. */
export const BlockerList = ({ blockers, stepOf }: Props) => (
  <ul className="landfall-advice" data-testid="blockers">
    {blockers.map((blocker) => {
      const { key, text, name, path } = blocker;
      const step = stepOf?.(blocker);
      return (
        <li key={key}>
          {path && <Link to={path}>{name}</Link>}
          {path && ': '}
          {text}{' '}
          {step && (
            <Button variant="link" isInline onClick={step.open}>
              Go to {step.name}
            </Button>
          )}
        </li>
      );
    })}
  </ul>
);

/** What does not block an installation, but should be known before it. */
export const Warnings = ({ readiness }: { readiness: Readiness }) =>
  withoutKey(readiness).length > 0 && (
    <Alert isInline isPlain variant="warning" title="The discovery image has no SSH key." component="h3">
      Nobody can log in to a host that does not register. Set a key under “Add hosts”, or for all new clusters in
      the <Link to="/settings#ssh-key">settings</Link>.
    </Alert>
  );
