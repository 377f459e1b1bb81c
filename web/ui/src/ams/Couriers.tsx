import { Alert, Button, Card, CardBody, CardTitle, Content, Flex, List, ListItem } from '@patternfly/react-core';
import { useRef, useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { save } from '../shell/download';
import { moment } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import type { Act } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { exportCourier, importReceipts, revokeCourier, type AmsStatus, type Imported } from './api';
import { fingerprintIn } from './words';

type Props = { status: AmsStatus; act: Act; failed: (sentence: string) => void; changed: () => void };

/** The files that couriers carry on a USB stick: exports and receipts. */
export const Couriers = ({ status, act, failed, changed }: Props) => {
  const input = useRef<HTMLInputElement>(null);
  const [imported, setImported] = useState<Imported>();
  const [untrusted, setUntrusted] = useState<{ file: File; key: string }>();
  const [lost, setLost] = useState<string>();
  const { isRunning, run } = useAction();
  const importFile = async (file: File, trust = '') => {
    try {
      setImported(await importReceipts(file, trust));
      setUntrusted(undefined);
      failed('');
    } catch (thrown) {
      const key = fingerprintIn(sentenceOf(thrown));
      setUntrusted(key === '' ? undefined : { file, key });
      failed(key === '' ? sentenceOf(thrown) : '');
    }
    changed();
  };
  const off = status.state === 'off';
  return (
    <Card isFullHeight>
      <CardTitle>Courier</CardTitle>
      <CardBody>
        <Content component="p">
          Without a connection, use a USB stick: export the file, send its changes from a connected machine (landfall
          ams push FILE), and import the receipts. The file contains no token and no pull secret.
        </Content>
        <Flex gap={{ default: 'gapSm' }}>
          <ActionButton
            variant="secondary"
            isDisabled={off || status.waiting === 0}
            onAct={() =>
              act(async () => {
                const { name, file } = await exportCourier();
                save(name, file);
              })
            }
          >
            Export for a courier
          </ActionButton>
          <Button variant="secondary" isDisabled={off || isRunning} onClick={() => input.current?.click()}>
            Import receipts
          </Button>
          <input
            ref={input}
            type="file"
            hidden
            aria-label="Receipts to import"
            onChange={(event) => {
              const file = event.target.files?.[0];
              if (file) {
                void run(() => importFile(file));
              }
              event.target.value = '';
            }}
          />
        </Flex>
        {untrusted && (
          <Alert
            isInline
            variant="warning"
            title="These receipts come from an unknown machine."
            actionLinks={
              <ActionButton variant="link" isInline onAct={() => run(() => importFile(untrusted.file, untrusted.key))}>
                Trust the machine and import
              </ActionButton>
            }
          >
            The key of the machine is {untrusted.key}. Compare the key with the output of landfall ams push.
          </Alert>
        )}
        {imported && (
          <Alert isInline variant="success" title="Receipts imported.">
            {imported.told} sent, {imported.later} still waiting, {imported.already} already recorded,{' '}
            {imported.stopped} need attention, {imported.unknown} of other sites.
          </Alert>
        )}
        {status.couriers.length > 0 && (
          <List isPlain aria-label="Pending exports">
            {status.couriers.map(({ export_id: id, until, clusters }) => (
              <ListItem key={id}>
                The export {id} with {clusters} {clusters === 1 ? 'cluster' : 'clusters'} is pending; receipts are
                expected by {moment(until)}{' '}
                <Button
                  variant="link"
                  isInline
                  onClick={() => {
                    setLost(id);
                  }}
                >
                  Report as lost
                </Button>
              </ListItem>
            ))}
          </List>
        )}
      </CardBody>
      {lost !== undefined && (
        <Confirm
          title={`Report the export ${lost} as lost?`}
          action="Report as lost"
          onClose={() => {
            setLost(undefined);
          }}
          onConfirm={() => void act(() => revokeCourier(lost))}
        >
          The appliance sends or exports the changes again. If a courier also sends the file, OpenShift Cluster Manager
          may get a cluster twice.
        </Confirm>
      )}
    </Card>
  );
};
