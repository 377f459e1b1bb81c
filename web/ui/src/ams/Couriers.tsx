import { Alert, Button, Card, CardBody, CardTitle, Content, Flex, List, ListItem } from '@patternfly/react-core';
import { useRef, useState } from 'react';
import { moment } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import type { Act } from '../shell/useAct';
import { exportCourier, importReceipts, revokeCourier, type AmsStatus, type Imported } from './api';
import { fingerprintIn } from './words';

type Props = { status: AmsStatus; act: Act; failed: (sentence: string) => void; changed: () => void };

/** What a courier with a USB stick takes along and brings back. */
export const Couriers = ({ status, act, failed, changed }: Props) => {
  const input = useRef<HTMLInputElement>(null);
  const [came, setCame] = useState<Imported>();
  const [stranger, setStranger] = useState<{ file: File; key: string }>();
  const take = async (file: File, trust = '') => {
    try {
      setCame(await importReceipts(file, trust));
      setStranger(undefined);
      failed('');
    } catch (thrown) {
      const key = fingerprintIn(sentenceOf(thrown));
      setStranger(key === '' ? undefined : { file, key });
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
          Without a connection, a USB stick does it: take the file along, tell with it on a connected machine (landfall
          ams push FILE), and bring the receipts back. There is no token and no pull secret in it.
        </Content>
        <Flex gap={{ default: 'gapSm' }}>
          <Button
            variant="secondary"
            isDisabled={off || status.waiting === 0}
            onClick={() =>
              void act(async () => {
                const { name, file } = await exportCourier();
                save(name, file);
              })
            }
          >
            Export for a courier
          </Button>
          <Button variant="secondary" isDisabled={off} onClick={() => input.current?.click()}>
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
                void take(file);
              }
              event.target.value = '';
            }}
          />
        </Flex>
        {stranger && (
          <Alert
            isInline
            variant="warning"
            title="These receipts come from a machine that is not known here."
            actionLinks={
              <Button variant="link" isInline onClick={() => void take(stranger.file, stranger.key)}>
                Trust it and import
              </Button>
            }
          >
            Its key is {stranger.key}. Compare it with what the push showed.
          </Alert>
        )}
        {came && (
          <Alert isInline variant="success" title="The receipts are in.">
            {came.told} told, {came.already} known already, {came.stopped} need attention, {came.unknown} not of this site.
          </Alert>
        )}
        {status.couriers.length > 0 && (
          <List isPlain aria-label="Couriers that are out">
            {status.couriers.map(({ export_id: id, until, clusters }) => (
              <ListItem key={id}>
                {id} is out with {clusters} {clusters === 1 ? 'cluster' : 'clusters'}, expected back by {moment(until)}{' '}
                <Button variant="link" isInline onClick={() => void act(() => revokeCourier(id))}>
                  It is lost
                </Button>
              </ListItem>
            ))}
          </List>
        )}
      </CardBody>
    </Card>
  );
};

const save = (name: string, file: Blob) => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
};
