import { Stack, StackItem, Tab, TabContentBody, Tabs, TabTitleText } from '@patternfly/react-core';
import { type ReactNode } from 'react';
import { useSearchParams } from 'react-router-dom-v5-compat';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { useMay } from './AccessProvider';
import { listSessions } from './api';
import { AuditTrail } from './AuditTrail';
import { HostTokens } from './HostTokens';
import { Passkeys } from './Passkeys';
import { Password } from './Password';
import { Sessions } from './Sessions';
import { Tokens } from './Tokens';
import { Users } from './Users';

const now = () => 30_000;

type TabOfPage = { key: string; title: string; content: ReactNode };

/** Accounts, tokens, sessions and the audit trail: administrators see all, others their own. */
const AccessPage = () => {
  const operates = useMay('operator');
  const administers = useMay('admin');
  const [query, setQuery] = useSearchParams();
  const { answer: sessions, error, refetch } = useAnswer(listSessions, now);
  const { act, failure } = useAct(refetch);
  const own = (
    <Stack hasGutter>
      <StackItem>
        <Password act={act} />
      </StackItem>
      <StackItem>
        <Passkeys act={act} />
      </StackItem>
      <StackItem>
        <Sessions sessions={sessions ?? []} act={act} />
      </StackItem>
    </Stack>
  );
  const tabs: TabOfPage[] = [
    ...(administers ? [{ key: 'people', title: 'People', content: <Users act={act} /> }] : []),
    ...(administers ? [{ key: 'programs', title: 'Programs', content: <Tokens act={act} /> }] : []),
    ...(operates ? [{ key: 'hosts', title: 'Hosts', content: <HostTokens act={act} /> }] : []),
    { key: 'own', title: administers ? 'Sessions and my account' : 'My account', content: own },
    ...(administers ? [{ key: 'audit', title: 'Audit trail', content: <AuditTrail /> }] : []),
  ];
  const usual = administers ? 'people' : 'own';
  const asked = query.get('tab');
  return (
    <PageFrame
      title={administers ? 'Accounts' : 'My account'}
      about={
        <>
          Viewers read everything except secrets. Operators install clusters. Administrators may do everything.{' '}
          <Help to="security">About security</Help>
        </>
      }
      failure={failure}
      error={error}
      hasAnswer={sessions !== undefined}
      waiting="Reading the accounts"
    >
      <StackItem>
        <Tabs
          aria-label="Accounts"
          mountOnEnter
          unmountOnExit
          activeKey={tabs.find(({ key }) => key === asked)?.key ?? usual}
          onSelect={(_event, key) => {
            setQuery({ tab: String(key) });
          }}
        >
          {tabs.map(({ key, title, content }) => (
            <Tab key={key} eventKey={key} title={<TabTitleText>{title}</TabTitleText>}>
              <TabContentBody hasPadding>{content}</TabContentBody>
            </Tab>
          ))}
        </Tabs>
      </StackItem>
    </PageFrame>
  );
};

export default AccessPage;
