import {
  Alert,
  Bullseye,
  Content,
  Grid,
  GridItem,
  PageSection,
  Spinner,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { useCallback, useEffect, useState } from 'react';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { readAms, type AmsStatus, type Selection } from './api';
import { ClusterTable } from './ClusterTable';
import { Connection } from './Connection';
import { Couriers } from './Couriers';
import { Tokens } from './Tokens';

// Thousands of clusters take the appliance some tenths of a second to look at.
const wait = (status: AmsStatus | undefined) => ((status?.waiting ?? 0) + (status?.sent ?? 0) > 1_000 ? 10_000 : 2_000);
const pageSize = 50;

/** What OpenShift Cluster Manager knows of this site's clusters, what waits and for what, and what to do about it. */
const AmsPage = () => {
  const [selection, setSelection] = useState<Selection>({ state: '', name: '', offset: 0, limit: pageSize });
  const ask = useCallback((signal: AbortSignal) => readAms(selection, signal), [selection]);
  const { answer, error, askAgain } = useAnswer(ask, wait);
  const [shown, setShown] = useState(answer);
  const [failure, setFailure] = useState('');
  if (answer && answer !== shown) {
    setShown(answer); // what was there stays while another selection is asked for
  }
  useEffect(() => {
    document.title = 'OpenShift Cluster Manager · Landfall';
  }, []);
  const act = async (work: () => Promise<unknown>): Promise<boolean> => {
    let done = true;
    try {
      await work();
      setFailure('');
    } catch (thrown) {
      done = false;
      setFailure(sentenceOf(thrown));
    }
    askAgain();
    return done;
  };
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">OpenShift Cluster Manager</Content>
        <Content component="p">
          What it knows of this site&apos;s clusters. It is told whenever there is a way; no cluster ever waits for it.
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          {failure !== '' && (
            <StackItem>
              <Alert isInline variant="danger" title={failure} data-testid="ams-failure" />
            </StackItem>
          )}
          {error && (
            <StackItem>
              <Alert isInline variant="danger" title={sentenceOf(error)} />
            </StackItem>
          )}
          {!shown && !error && (
            <Bullseye>
              <Spinner aria-label="Asking how the site stands with OpenShift Cluster Manager" />
            </Bullseye>
          )}
          {shown && (
            <>
              <StackItem>
                <Grid hasGutter>
                  <GridItem lg={6}>
                    <Connection status={shown} act={act} />
                  </GridItem>
                  <GridItem lg={6}>
                    <Couriers status={shown} act={act} failed={setFailure} changed={askAgain} />
                  </GridItem>
                </Grid>
              </StackItem>
              <StackItem>
                <ClusterTable status={shown} selection={selection} select={setSelection} act={act} />
              </StackItem>
              <StackItem>
                <Tokens act={act} />
              </StackItem>
            </>
          )}
        </Stack>
      </PageSection>
    </>
  );
};

/** Does something and says how it failed, if it did; then everything is asked for again. */
export type Act = (work: () => Promise<unknown>) => Promise<boolean>;

export default AmsPage;
