import { Button, Flex, StackItem } from '@patternfly/react-core';
import { useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { Help } from '../shell/Help';
import { PageFrame } from '../shell/PageFrame';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { AddDialog } from './AddDialog';
import { listInfraEnvs } from './api';
import { ServerTable } from './ServerTable';
import { TableDialog } from './TableDialog';
import { useServers } from './useServers';

const seldom = () => 10_000;

/** The page of the servers that are controlled by their BMCs. */
const BmcPage = () => {
  const { answer, error, refetch } = useServers();
  const infraEnvs = useAnswer(listInfraEnvs, seldom).answer ?? [];
  const [dialog, setDialog] = useState<'add' | 'table'>();
  const { act, failure } = useAct(refetch);
  const close = () => {
    setDialog(undefined);
    refetch();
  };
  return (
    <>
      <PageFrame
        title="Servers"
        about={
          <>
            Servers whose management controllers (BMCs) support Redfish. They boot once from an infra-env&apos;s image
            by virtual media. The image is ejected when they restart from their disks.{' '}
            <Help to="bmc">About servers</Help>
          </>
        }
        head={
          <Requires role="admin">
            <Flex gap={{ default: 'gapSm' }}>
              <Button
                onClick={() => {
                  setDialog('add');
                }}
              >
                Add a server
              </Button>
              <Button
                variant="secondary"
                onClick={() => {
                  setDialog('table');
                }}
              >
                Paste a table
              </Button>
            </Flex>
          </Requires>
        }
        failure={failure}
        error={error}
        hasAnswer={answer !== undefined}
        waiting="Reading the servers"
      >
        {answer && (
          <StackItem>
            <ServerTable servers={answer} infraEnvs={infraEnvs} act={act} />
          </StackItem>
        )}
      </PageFrame>
      {dialog === 'add' && <AddDialog infraEnvs={infraEnvs} onClose={close} />}
      {dialog === 'table' && <TableDialog onClose={close} />}
    </>
  );
};

export default BmcPage;
