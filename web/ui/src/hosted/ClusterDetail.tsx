import { Alert, Button, Content, Spinner, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useCallback, useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Copyable } from '../image/Copyable';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { save } from '../shell/download';
import { moment } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import type { Act } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { useAnswer } from '../shell/useAnswer';
import { readBundle, readDetail, requestKubeconfig, scale, type Cluster, type Detail, type NodePool } from './api';
import { isNodeCount, NodeCount, type Count } from './NodeCount';
import { StateLabel } from './StateLabel';

const often = () => 5_000;

/** What is below the row of a hosted cluster: node pools, DNS records, bundles and commands. */
export const ClusterDetail = ({ cluster, act }: { cluster: Cluster; act: Act }) => {
  const load = useCallback((signal: AbortSignal) => readDetail(cluster.cid, signal), [cluster.cid]);
  const { answer, error } = useAnswer<Detail>(load, often);
  if (error && !answer) {
    return <Alert isInline variant="danger" title={sentenceOf(error)} />;
  }
  if (!answer) {
    return <Spinner aria-label="Reading the hosted cluster" />;
  }
  return (
    <Stack hasGutter>
      <StackItem>
        <Kubeconfig cluster={cluster} />
      </StackItem>
      <StackItem>
        <Content component="h3">Node pools</Content>
        {answer.node_pools.map((pool) => (
          <Pool key={pool.name} cluster={cluster} pool={pool} act={act} />
        ))}
        {answer.node_pools.length === 0 && 'No node pools.'}
      </StackItem>
      <StackItem>
        <Content component="h3">DNS records to add</Content>
        {answer.dns_records.map((record) => (
          <div key={record.name}>
            <Copyable label={`DNS record of ${record.name}`}>
              {`${record.name}. IN ${record.type} ${record.value === '' ? '?' : record.value}`}
            </Copyable>
            <Content component="small">{record.note}</Content>
          </div>
        ))}
        {answer.dns_records.length === 0 && 'They are known when the hosted cluster has a management cluster.'}
      </StackItem>
      <StackItem>
        <Content component="h3">Bundles</Content>
        <Bundles detail={answer} />
      </StackItem>
      <StackItem>
        <Content component="h3">Commands that show the cluster</Content>
        {answer.lines.map((line) => (
          <div key={line.title}>
            <Content component="small">{line.title}</Content>
            <Copyable label={line.title}>{line.command}</Copyable>
          </div>
        ))}
      </StackItem>
    </Stack>
  );
};

/** A node pool with its number of nodes, which can be changed. */
export const Pool = ({ cluster, pool, act }: { cluster: Cluster; pool: NodePool; act: Act }) => {
  const [draft, setDraft] = useState<Count>();
  const [isConfirming, setConfirming] = useState(false);
  if (draft === pool.wanted) {
    setDraft(undefined); // from now on, the field follows what others change
  }
  const wanted = draft ?? pool.wanted;
  const { isRunning, run } = useAction();
  const send = () => void run(() => act(() => scale(cluster, pool.name, Number(wanted))));
  const mayScale = useMay('operator') && pool.most === undefined && cluster.state !== 'Deleting';
  return (
    <div data-testid={`pool-${pool.name}`}>
      <strong>{pool.name}</strong> <StateLabel state={pool.state} />{' '}
      {`${String(pool.ready)} of ${String(pool.wanted)} nodes of the profile ${pool.profile}. ${pool.reason ?? ''}`}
      {mayScale && (
        <div>
          <NodeCount label={`Nodes of ${pool.name}`} value={wanted} onChange={setDraft} />{' '}
          <Button
            variant="secondary"
            size="sm"
            isDisabled={wanted === pool.wanted || !isNodeCount(wanted)}
            isAriaDisabled={isRunning}
            onClick={() => {
              if (Number(wanted) < pool.wanted) {
                setConfirming(true);
              } else {
                send();
              }
            }}
          >
            Scale
          </Button>
          {isConfirming && (
            <Confirm
              title={`Scale ${pool.name} down to ${String(wanted)}?`}
              action="Scale down"
              onConfirm={send}
              onClose={() => {
                setConfirming(false);
              }}
            >
              The node pool of {cluster.name} shrinks from {pool.wanted} nodes to {wanted}.
            </Confirm>
          )}
        </div>
      )}
    </div>
  );
};

/** The button that requests a kubeconfig and downloads it. */
const Kubeconfig = ({ cluster }: { cluster: Cluster }) => {
  const [failure, setFailure] = useState('');
  if (!useMay('admin') || cluster.state === 'Deleting') {
    return null;
  }
  const download = async () => {
    setFailure('');
    try {
      const text = await requestKubeconfig(cluster.cid, AbortSignal.timeout(120_000));
      save(`${cluster.name}.kubeconfig`, new Blob([text], { type: 'application/yaml' }));
    } catch (thrown) {
      setFailure(
        thrown instanceof DOMException
          ? 'The management cluster has not signed the certificate yet. Ask again when it is connected.'
          : sentenceOf(thrown),
      );
    }
  };
  return (
    <>
      <ActionButton variant="secondary" onAct={download}>
        Download a kubeconfig
      </ActionButton>
      {failure !== '' && <Alert isInline variant="danger" title={failure} />}
    </>
  );
};

/** The bundles with their versions, and the manifests of one of them. */
const Bundles = ({ detail }: { detail: Detail }) => {
  const [shown, setShown] = useState<{ id: string; text: string }>();
  const show = async (id: string) => {
    try {
      setShown({ id, text: await readBundle(id) });
    } catch (thrown) {
      setShown({ id, text: sentenceOf(thrown) });
    }
  };
  return (
    <>
      <Table aria-label="Bundles" variant="compact">
        <Thead>
          <Tr>
            <Th>Name</Th>
            <Th>State</Th>
            <Th>Version</Th>
            <Th>Reported</Th>
            <Th screenReaderText="Manifests" />
          </Tr>
        </Thead>
        <Tbody>
          {detail.bundles.map((bundle) => (
            <Tr key={bundle.id}>
              <Td dataLabel="Name">{bundle.name}</Td>
              <Td dataLabel="State">
                {bundle.state}. {bundle.reason}
              </Td>
              <Td dataLabel="Version">{bundle.version}</Td>
              <Td dataLabel="Reported">
                {bundle.reported_at
                  ? `version ${String(bundle.reported_version)}, ${moment(bundle.reported_at)}`
                  : 'never'}
              </Td>
              <Td>
                <Button variant="link" isInline onClick={() => void show(bundle.id)}>
                  Manifests
                </Button>
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
      {shown && (
        <pre className="pf-v6-u-font-size-sm" data-testid="manifests">
          {shown.text}
        </pre>
      )}
    </>
  );
};
