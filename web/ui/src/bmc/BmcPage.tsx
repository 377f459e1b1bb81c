import { Alert, Bullseye, Button, Content, Flex, PageSection, Spinner, Stack, StackItem } from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { AddDialog } from './AddDialog';
import { listInfraEnvs } from './api';
import { ServerTable } from './ServerTable';
import { TableDialog } from './TableDialog';
import { useServers } from './useServers';

const seldom = () => 10_000;

/** The servers that are booted and switched by their management controllers. */
const BmcPage = () => {
  const { answer, error, askAgain } = useServers();
  const infraEnvs = useAnswer(listInfraEnvs, seldom).answer ?? [];
  const [dialog, setDialog] = useState<'add' | 'table'>();
  const [failure, setFailure] = useState('');
  useEffect(() => {
    document.title = 'Servers · Landfall';
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
  const close = () => {
    setDialog(undefined);
    askAgain();
  };
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">Servers</Content>
        <Content component="p">
          Servers whose management controllers (BMCs) speak Redfish. They are booted once from an infra-env&apos;s image by
          virtual media, which is taken out again when they restart into their disks.
        </Content>
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
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          {failure !== '' && (
            <StackItem>
              <Alert isInline variant="danger" title={failure} data-testid="bmc-failure" />
            </StackItem>
          )}
          {error && (
            <StackItem>
              <Alert isInline variant="danger" title={sentenceOf(error)} />
            </StackItem>
          )}
          {!answer && !error && (
            <Bullseye>
              <Spinner aria-label="Reading the servers" />
            </Bullseye>
          )}
          {answer && (
            <StackItem>
              <ServerTable servers={answer} infraEnvs={infraEnvs} act={act} />
            </StackItem>
          )}
        </Stack>
        {dialog === 'add' && <AddDialog infraEnvs={infraEnvs} onClose={close} />}
        {dialog === 'table' && <TableDialog onClose={close} />}
      </PageSection>
    </>
  );
};

/** Does something and says how it failed, if it did; then everything is asked for again. */
export type Act = (work: () => Promise<unknown>) => Promise<boolean>;

export default BmcPage;
