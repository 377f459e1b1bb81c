import { Alert, Content, DescriptionList, Flex, FlexItem, Progress, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { Fact } from '../image/Copyable';
import { CopyButton } from '../shell/CopyButton';
import { Help } from '../shell/Help';
import { bytes, moment } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import { SectionCard } from '../shell/SectionCard';
import { Toned } from '../shell/Toned';
import { useAnswer } from '../shell/useAnswer';
import { readHandOver, type HandOver, type HandOverCluster } from './api';
import { clusterStateOf, handOverStateOf, hasEnded, nextOf, notesOf, poolsOf } from './words';

const often = 2_000;
const seldom = 30_000;
const wait = (handOver: HandOver | null | undefined) => (handOver && !hasEnded(handOver) ? often : seldom);

/** How far the hand-over to a registry of the site is. Commands start and continue it. */
export const HandOverCard = () => {
  const { answer: handOver, error } = useAnswer(readHandOver, wait);
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
