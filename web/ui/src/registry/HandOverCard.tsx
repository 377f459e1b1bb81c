import {
  Alert,
  Button,
  Content,
  DescriptionList,
  Flex,
  FlexItem,
  Progress,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { Fact } from '../image/Copyable';
import { Confirm } from '../shell/Confirm';
import { CopyButton } from '../shell/CopyButton';
import { Help } from '../shell/Help';
import { bytes, moment } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import { SectionCard } from '../shell/SectionCard';
import { Toned } from '../shell/Toned';
import { useAct, type Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { cancelHandOver, confirmHandOver, noHandOver, readHandOver, type HandOver, type HandOverCluster } from './api';
import { HandOverDialog } from './HandOverDialog';
import { clusterStateOf, handOverStateOf, hasEnded, nextOf, notesOf, poolsOf, withBoth } from './words';

const often = 2_000;
const seldom = 30_000;
const wait = (handOver: HandOver | null | undefined) => (handOver && !hasEnded(handOver) ? often : seldom);

/** `onStart` reads again whether a hand-over was started. */
type Props = { isStarted: boolean; onStart: () => void };

/** How far the hand-over to a registry of the site is, and what starts, continues and stops it. */
export const HandOverCard = ({ isStarted, onStart }: Props) => {
  const { answer: handOver, error, refetch } = useAnswer(isStarted ? readHandOver : noHandOver, wait);
  const { act, failure } = useAct(refetch);
  const next = handOver === undefined ? undefined : nextOf(handOver);
  return (
    <SectionCard id="registry-hand-over" title="Hand-over to a registry of the site">
      <Stack hasGutter>
        {error && (
          <StackItem>
            <Alert isInline variant="danger" title={sentenceOf(error)} />
          </StackItem>
        )}
        {handOver && <Shown handOver={handOver} />}
        {failure !== '' && (
          <StackItem>
            <Alert isInline variant="danger" title={failure} />
          </StackItem>
        )}
        {handOver !== undefined && (
          <Requires role="admin">
            <StackItem>
              <Actions handOver={handOver} act={act} refetch={isStarted ? refetch : onStart} />
            </StackItem>
          </Requires>
        )}
        {next && (
          <StackItem>
            <Content component="p" data-testid="next-command">
              <code className="landfall-address">{next.command}</code> {next.effect}{' '}
              <Help to="registry#hand-over">About the hand-over</Help>
            </Content>
          </StackItem>
        )}
      </Stack>
    </SectionCard>
  );
};

type ActionsProps = { handOver: HandOver | null; act: Act; refetch: () => void };

const Actions = ({ handOver, act, refetch }: ActionsProps) => {
  const [dialog, setDialog] = useState<'start' | 'stop' | 'remove'>();
  const close = () => {
    setDialog(undefined);
    refetch();
  };
  const open = (name: 'start' | 'stop' | 'remove') => () => {
    setDialog(name);
  };
  const isDone = handOver?.state === 'done';
  return (
    <Flex gap={{ default: 'gapSm' }}>
      {(handOver === null || (hasEnded(handOver) && !isDone)) && (
        <Button variant="secondary" onClick={open('start')}>
          Hand the registry over
        </Button>
      )}
      {handOver?.state === 'asking' && (
        <Button variant="danger" onClick={open('remove')}>
          Remove the first mirror
        </Button>
      )}
      {handOver && (isDone || !hasEnded(handOver)) && (
        <Button variant="secondary" onClick={open('stop')}>
          {isDone ? 'Take the registry back' : 'Stop the hand-over'}
        </Button>
      )}
      {dialog === 'start' && <HandOverDialog before={handOver} onClose={close} />}
      {dialog === 'remove' && handOver && (
        <Confirm
          title="Remove this registry from the clusters?"
          action="Remove the first mirror"
          onConfirm={() => void act(confirmHandOver)}
          onClose={close}
        >
          {withBoth(handOver).join(', ')} then pull from {handOver.to} only. The nodes drain and take over the change,
          one after the other.
        </Confirm>
      )}
      {dialog === 'stop' && (
        <Confirm
          title={isDone ? 'Take the registry back?' : 'Stop the hand-over?'}
          action={isDone ? 'Take the registry back' : 'Stop the hand-over'}
          dismiss={isDone ? 'Leave it there' : 'Go on'}
          onConfirm={() => void act(cancelHandOver)}
          onClose={close}
        >
          {isDone
            ? "New clusters use the appliance's registry again. The clusters that were handed over keep the site's."
            : 'What was copied and added to clusters stays. The hand-over can be started again.'}
        </Confirm>
      )}
    </Flex>
  );
};

const Shown = ({ handOver }: { handOver: HandOver }) => {
  const { to, name, message, by, started, state, bytes: size, bytes_done: done } = handOver;
  const clusters = handOver.clusters ?? [];
  return (
    <>
      <StackItem>
        <Toned {...handOverStateOf(state)} /> <span className="landfall-address">{message}</span>
      </StackItem>
      {size > 0 && (
        <StackItem>
          <Progress title="Copied" value={done} max={size} label={`${bytes(done)} of ${bytes(size)}`} />
        </StackItem>
      )}
      <StackItem>
        <DescriptionList isCompact isHorizontal aria-label="Hand-over">
          <Fact term="From">
            <span className="landfall-address">{name}</span>
          </Fact>
          <Fact term="To">
            <span className="landfall-address">{to}</span>
          </Fact>
          <Fact term="Started">{`${moment(started)} by ${by}`}</Fact>
          {handOver.proofs?.map((proof) => (
            <Fact key={proof.name} term={`Images of ${proof.name}`}>
              {proof.summary}
            </Fact>
          ))}
        </DescriptionList>
      </StackItem>
      {handOver.dns_record && state !== 'done' && <DNSRecord text={handOver.dns_record.text} />}
      {notesOf(handOver).map((note) => (
        <StackItem key={note}>
          <Alert isInline isPlain variant="warning" title={note} className="landfall-address" />
        </StackItem>
      ))}
      {clusters.length > 0 && (
        <StackItem>
          <Clusters clusters={clusters} />
        </StackItem>
      )}
    </>
  );
};

const DNSRecord = ({ text }: { text: string }) => (
  <StackItem>
    <Flex>
      <FlexItem>Set in the site&apos;s DNS:</FlexItem>
      <FlexItem>
        <CopyButton id="copy-hand-over" text={text}>
          Copy the DNS record
        </CopyButton>
      </FlexItem>
    </Flex>
    <pre className="landfall-docs-code" tabIndex={0} data-testid="hand-over-record">
      {text}
    </pre>
  </StackItem>
);

const Clusters = ({ clusters }: { clusters: HandOverCluster[] }) => (
  <Table aria-label="Clusters of the hand-over" variant="compact">
    <Thead>
      <Tr>
        <Th width={30}>Cluster</Th>
        <Th>State</Th>
        <Th>Nodes</Th>
      </Tr>
    </Thead>
    <Tbody>
      {clusters.map((cluster) => (
        <Tr key={cluster.id}>
          <Td dataLabel="Cluster">
            <div className="landfall-address">{cluster.name}</div>
          </Td>
          <Td dataLabel="State">
            <Toned {...clusterStateOf(cluster.state)} />
            {cluster.message && <div className="landfall-subtle landfall-address">{cluster.message}</div>}
          </Td>
          <Td dataLabel="Nodes">{poolsOf(cluster)}</Td>
        </Tr>
      ))}
    </Tbody>
  </Table>
);
