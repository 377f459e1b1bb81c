import { Alert, StackItem } from '@patternfly/react-core';
import { useEffect } from 'react';
import { useLocation } from 'react-router-dom-v5-compat';
import { useMay } from '../access/AccessProvider';
import { useRefetchOn } from '../live/useRefetchOn';
import { Notifications } from '../notices/Notifications';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAnswer } from '../shell/useAnswer';
import { readSettings, type Settings } from './api';
import { PullSecret } from './PullSecret';
import { Releases } from './Releases';
import { SSHKey, TimeServers } from './Texts';
import { URLSetting } from './URLSetting';

const often = 1_000;
const seldom = 30_000;
const wait = (settings: Settings | undefined) =>
  settings?.releases?.some(({ state }) => state === 'checking') ? often : seldom;

/** The page of the site's settings. Administrators change them; others read them. */
const SettingsPage = () => {
  const { answer, error, refetch } = useAnswer(readSettings, wait);
  useRefetchOn(['settings'], refetch);
  const administers = useMay('admin');
  useShownSetting(answer !== undefined);
  return (
    <PageFrame
      title="Settings"
      about={
        <>
          New clusters and hosts use these settings. A setting of the configuration file can only be changed there.{' '}
          <Help to="operations">About the operation of the appliance</Help>
        </>
      }
      failure=""
      error={error}
      hasAnswer={answer !== undefined}
      waiting="Reading the settings"
    >
      {!administers && (
        <StackItem>
          <Alert isInline variant="info" title="Only administrators can change the settings." />
        </StackItem>
      )}
      {answer && (
        <>
          <StackItem>
            <URLSetting setting={answer.url} changed={refetch} />
          </StackItem>
          <StackItem>
            <Releases releases={answer.releases ?? []} changed={refetch} />
          </StackItem>
          <StackItem>
            <PullSecret setting={answer.pull_secret} changed={refetch} />
          </StackItem>
          <StackItem>
            <SSHKey setting={answer.ssh_public_key} changed={refetch} />
          </StackItem>
          <StackItem>
            <TimeServers setting={answer.ntp_sources} changed={refetch} />
          </StackItem>
          <StackItem>
            <Notifications />
          </StackItem>
        </>
      )}
    </PageFrame>
  );
};

export default SettingsPage;

/** Scrolls to the setting that the address names, and focuses its first control. */
const useShownSetting = (isReady: boolean) => {
  const { hash, key } = useLocation();
  useEffect(() => {
    const section = isReady && hash.length > 1 ? document.getElementById(hash.slice(1)) : null;
    section?.scrollIntoView({ block: 'start' });
    section?.querySelector<HTMLElement>('input, textarea, select, button')?.focus({ preventScroll: true });
  }, [hash, key, isReady]);
};
