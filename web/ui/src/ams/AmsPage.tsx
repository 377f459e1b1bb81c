import { Content, Grid, GridItem, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { useCallback, useEffect, useState } from 'react';
import { Standing } from '../shell/Standing';
import { useAct } from '../shell/useAct';
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
  const { act, failure, setFailure } = useAct(askAgain);
  if (answer && answer !== shown) {
    setShown(answer); // what was there stays while another selection is asked for
  }
  useEffect(() => {
    document.title = 'OpenShift Cluster Manager · Landfall';
  }, []);
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
          <Standing failure={failure} error={error} hasAnswer={shown !== undefined} waiting="Asking how the site stands with OpenShift Cluster Manager" />
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

export default AmsPage;
