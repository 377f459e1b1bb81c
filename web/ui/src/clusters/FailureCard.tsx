import { Alert, Content } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { moment } from '../shell/quantities';
import { compareNatural } from '../shell/rows';
import type { Failure, Part } from './api';
import { helpName, helpPath } from './words';

/** Why an installation failed: the root cause first, then what to do, and what was stopped. */
export const FailureCard = ({ failure, actions }: { failure: Failure; actions?: ReactNode }) => (
  <Alert isInline variant="danger" title={`${failure.title}.`} component="h2" data-testid="installation-failure">
    {failure.cause.text && (
      <Content component="p" className="landfall-cause">
        {failure.cause.text}
        {failure.cause.at && <span className="landfall-subtle"> {moment(failure.cause.at)}</span>}
      </Content>
    )}
    <h3 className="landfall-step-title">What to do</h3>
    <ol className="landfall-advice">
      {failure.advice.map(({ text, page }) => {
        const path = helpPath(failure, page);
        return (
          <li key={text}>
            {text} {path && page && <Link to={path}>{helpName(page)}</Link>}
          </li>
        );
      })}
    </ol>
    <Parts title="Failed after that" parts={failure.others} />
    <Parts title="Stopped because of this" parts={failure.stopped} />
    {actions}
  </Alert>
);

const Parts = ({ title, parts }: { title: string; parts: Part[] }) =>
  parts.length === 0 ? null : (
    <>
      <h3 className="landfall-step-title">{title}</h3>
      <ul className="landfall-advice">
        {[...parts].sort((a, b) => compareNatural(a.name, b.name)).map((part) => (
          <li key={part.id ?? part.name}>
            {part.kind === 'host' && part.id ? (
              <Link to={`/hosts/${part.infra_env_id ?? ''}/${part.id}`}>{part.name}</Link>
            ) : (
              part.name
            )}
            {part.stage && `, in the stage ${part.stage}`}
            {part.text && `: ${part.text}`}
          </li>
        ))}
      </ul>
    </>
  );
