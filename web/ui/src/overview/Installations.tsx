import { Content, Progress } from '@patternfly/react-core';
import { Link } from 'react-router-dom-v5-compat';
import { moment } from '../shell/quantities';
import type { Installation } from './api';
import { OverviewCard } from './OverviewCard';

/** The installations under way. */
export const Installations = ({ installations }: { installations: Installation[] }) => (
  <OverviewCard id="installations" title="Installations under way">
    {installations.length === 0 && <Content component="p">No installation is under way.</Content>}
    <ul className="landfall-lines">
      {installations.map(({ id, name, openshift_version: version, percent, started_at: started }) => (
        <li key={id} className="landfall-line-block">
          <Link to={`/assisted-installer/clusters/${id}`}>{name}</Link>{' '}
          <span className="landfall-subtle">
            OpenShift {version}
            {started && `, started ${moment(started)}`}
          </span>
          <Progress
            aria-label={`Installation of ${name}`}
            value={percent}
            label={`${String(percent)} %`}
            valueText={`${String(percent)} percent`}
            measureLocation="outside"
          />
        </li>
      ))}
    </ul>
  </OverviewCard>
);
