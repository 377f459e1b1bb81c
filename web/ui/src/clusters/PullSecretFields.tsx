import { Checkbox, FormGroup, TextArea } from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import { Hint } from './Hint';
import type { NewCluster } from './newCluster';

type Props = {
  cluster: NewCluster;
  /** Whether the site has a pull secret. */
  hasSite: boolean;
  set: (change: Partial<NewCluster>) => void;
  /** Why the cluster's own pull secret can't be used; "" if it can. */
  problem: string;
  onLeave: () => void;
};

/** The pull secret of a new cluster: that of the site, or its own. */
export const PullSecretFields = ({ cluster, hasSite, set, problem, onLeave }: Props) => (
  <FormGroup label="Pull secret" fieldId="new-pullSecret" isRequired={!hasSite}>
    {hasSite && (
      <>
        <p data-testid="site-pull-secret">
          {cluster.usesSitePullSecret ? "The site's pull secret is used." : "The site's pull secret is not used."}
        </p>
        <Checkbox
          id="own-pull-secret"
          label="Use another pull secret for this cluster"
          isChecked={!cluster.usesSitePullSecret}
          onChange={(_event, isOwn) => {
            set({ usesSitePullSecret: !isOwn, pullSecret: '' });
          }}
        />
      </>
    )}
    {!cluster.usesSitePullSecret && (
      <>
        <TextArea
          id="new-pullSecret"
          aria-label="Pull secret"
          rows={6}
          value={cluster.pullSecret}
          validated={problem ? 'error' : 'default'}
          aria-describedby="new-pullSecret-hint"
          onBlur={cluster.pullSecret === '' ? undefined : onLeave}
          onChange={(_event, value) => {
            set({ pullSecret: value });
          }}
        />
        <Hint id="new-pullSecret-hint" problem={problem}>
          The credentials for the mirror, as JSON.{' '}
          {!hasSite && (
            <>
              Set it for all clusters in the <Link to="/settings#pull-secret">settings</Link>.
            </>
          )}
        </Hint>
      </>
    )}
  </FormGroup>
);
