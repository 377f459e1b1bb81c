import { Grid, GridItem, StackItem } from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { readAms, type AmsStatus, type Selection } from './api';
import { ClusterTable } from './ClusterTable';
import { Connection } from './Connection';
import { Couriers } from './Couriers';
import { Tokens } from './Tokens';

// The appliance needs some tenths of a second for the status of thousands of clusters.
const wait = (status: AmsStatus | undefined) => ((status?.waiting ?? 0) + (status?.sent ?? 0) > 1_000 ? 10_000 : 2_000);
const pageSize = 50;

/**
 * The page of OpenShift Cluster Manager: its data about the site's clusters, pending changes with
 * their reasons, and remedies.
 */
const AmsPage = () => {
  const [selection, setSelection] = useState<Selection>({ state: '', name: '', offset: 0, limit: pageSize });
  const load = useCallback((signal: AbortSignal) => readAms(selection, signal), [selection]);
  const { answer, error, refetch } = useAnswer(load, wait);
  const [shown, setShown] = useState(answer);
  const { act, failure, setFailure } = useAct(refetch);
  if (answer && answer !== shown) {
    setShown(answer); // keeps the last clusters while others load
  }
  const administers = useMay('admin');
  return (
    <PageFrame
      title="OpenShift Cluster Manager"
      about={
        <>
          The data of OpenShift Cluster Manager about this site&apos;s clusters. The appliance sends changes whenever it
          has a connection. Installations do not wait for the connection.{' '}
          <Help to="ams">About OpenShift Cluster Manager</Help>
        </>
      }
      failure={failure}
      error={error}
      hasAnswer={shown !== undefined}
      waiting="Reading the status of OpenShift Cluster Manager"
    >
      {shown && (
        <>
          <StackItem>
            <Grid hasGutter>
              <GridItem lg={6}>
                <Connection status={shown} act={act} changed={refetch} />
              </GridItem>
              {administers && (
                <GridItem lg={6}>
                  <Couriers status={shown} act={act} failed={setFailure} changed={refetch} />
                </GridItem>
              )}
            </Grid>
          </StackItem>
          <StackItem>
            <ClusterTable status={shown} selection={selection} select={setSelection} act={act} changed={refetch} />
          </StackItem>
          {administers && (
            <StackItem>
              <Tokens act={act} />
            </StackItem>
          )}
        </>
      )}
    </PageFrame>
  );
};

export default AmsPage;
