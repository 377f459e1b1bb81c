import { Content } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { Link } from 'react-router-dom-v5-compat';
import { useMay } from '../access/AccessProvider';
import { listProofs, startProof, type Proof } from '../mirror/api';
import { stateOf } from '../overview/words';
import { ActionButton } from '../shell/ActionButton';
import { SectionCard } from '../shell/SectionCard';
import { Toned } from '../shell/Toned';
import type { Act } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import type { Dependent } from './api';
import { completenessOf } from './words';

type Props = { dependents: Dependent[]; act: Act };

const often = 1_000;
const seldom = 5_000;
const wait = (proofs: Proof[] | undefined) => (proofs?.some(({ state }) => state === 'running') ? often : seldom);

/** The clusters whose nodes pull from the registry, and whether it has all their images. */
export const DependentsCard = ({ dependents, act }: Props) => (
  <SectionCard id="registry-dependents" title="Clusters that depend on this registry">
    {dependents.length === 0 ? (
      <Content component="p">No cluster pulls from this registry.</Content>
    ) : (
      <Dependents dependents={dependents} act={act} />
    )}
  </SectionCard>
);

const Dependents = ({ dependents, act }: Props) => {
  const { answer: proofs, refetch } = useAnswer(listProofs, wait);
  const mayCheck = useMay('operator');
  return (
    <>
      <Content component="p">
        The nodes of these clusters pull from this registry. They can no longer pull when the appliance leaves.
      </Content>
      <Table aria-label="Clusters that depend on this registry" variant="compact">
        <Thead>
          <Tr>
            <Th>Cluster</Th>
            <Th>State</Th>
            <Th>Images</Th>
            <Th screenReaderText="Actions" />
          </Tr>
        </Thead>
        <Tbody>
          {dependents.map(({ id, name, base_dns_domain: domain, status }) => (
            <Tr key={id} data-testid="dependent">
              <Td dataLabel="Cluster">
                <Link to={`/assisted-installer/clusters/${id}`}>{name}</Link>
                <div className="landfall-subtle landfall-address">{[name, domain].filter(Boolean).join('.')}</div>
              </Td>
              <Td dataLabel="State">
                <Toned {...stateOf(status)} />
              </Td>
              <Td dataLabel="Images">{proofs && <Completeness {...completenessOf(id, proofs)} />}</Td>
              <Td isActionCell>
                {mayCheck && (
                  <ActionButton
                    variant="link"
                    isInline
                    aria-label={`Check its images: ${name}`}
                    onAct={() => act(() => startProof({ cluster_id: id })).finally(refetch)}
                  >
                    Check its images
                  </ActionButton>
                )}
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </>
  );
};

const Completeness = ({ tone, text, details }: ReturnType<typeof completenessOf>) => (
  <>
    <Toned tone={tone} text={text} />
    {details && <div className="landfall-subtle landfall-address">{details}</div>}
  </>
);
