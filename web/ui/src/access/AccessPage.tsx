import { Content, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { useEffect } from 'react';
import { PageStatus } from '../shell/PageStatus';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { useMay } from './AccessProvider';
import { listSessions } from './api';
import { Passkeys } from './Passkeys';
import { Password } from './Password';
import { Sessions } from './Sessions';
import { Tokens } from './Tokens';
import { Users } from './Users';

const now = () => 30_000;

/** Accounts, tokens and sessions: administrators see all, others their own. */
const AccessPage = () => {
  const administers = useMay('admin');
  const { answer: sessions, error, refetch } = useAnswer(listSessions, now);
  const { act, failure } = useAct(refetch);
  useEffect(() => {
    document.title = 'Accounts · Landfall';
  }, []);
  return (
    <div data-testid="access">
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">Accounts</Content>
        <Content component="p">
          Viewers read everything except secrets. Operators install clusters. Administrators may do everything.
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          <PageStatus
            failure={failure}
            error={error}
            hasAnswer={sessions !== undefined}
            waiting="Reading the accounts"
          />
          {administers && (
            <>
              <StackItem>
                <Users act={act} />
              </StackItem>
              <StackItem>
                <Tokens act={act} />
              </StackItem>
            </>
          )}
          <StackItem>
            <Sessions sessions={sessions ?? []} act={act} />
          </StackItem>
          <StackItem>
            <Password act={act} />
          </StackItem>
          <StackItem>
            <Passkeys act={act} />
          </StackItem>
        </Stack>
      </PageSection>
    </div>
  );
};

export default AccessPage;
