import {
  Alert,
  Card,
  CardBody,
  CardTitle,
  DescriptionList,
  Label,
  List,
  ListItem,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useCallback, type ReactNode } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { hardwareOf } from '../hosts/HostTable';
import { stateOf } from '../hosts/states';
import { problemOf } from '../hosts/table';
import { Fact } from '../image/Copyable';
import { asSentence } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { listManifests, type Readiness } from './api';
import { BlockerList, Warnings } from './BlockerList';
import { blockersOf, verdictOf, type Blocker } from './blockers';
import { FencingPanel } from './FencingPanel';
import { chosenOperators, clusterLines, hostLines, networkLines, type Line } from './review';

type Props = {
  readiness: Readiness;
  isReady: boolean;
  operatorName: (name: string) => string;
  stepOf: (blocker: Blocker) => { name: string; open: () => void } | undefined;
  onChange: () => void;
};

/** What the installation will do, and what blocks it, in plain words. */
export const Review = ({ readiness, isReady, operatorName, stepOf, onChange }: Props) => {
  const blockers = isReady ? [] : blockersOf(readiness);
  const operators = chosenOperators(readiness.details);
  return (
    <Stack hasGutter>
      <StackItem>
        <Alert
          isInline
          variant={isReady ? 'success' : 'warning'}
          title={<span role="status">{verdictOf(isReady, blockers)}</span>}
          component="h3"
          data-testid="review-verdict"
        >
          {blockers.length > 0 && <BlockerList blockers={blockers} stepOf={stepOf} />}
        </Alert>
      </StackItem>
      <StackItem className="landfall-review-warnings">
        <Warnings readiness={readiness} />
        <FencingPanel readiness={readiness} onSet={onChange} />
      </StackItem>
      <Section title="Cluster">
        <Lines label="Cluster" lines={clusterLines(readiness)} />
      </Section>
      <Section title="Hosts">
        <Hosts readiness={readiness} />
      </Section>
      <Section title="Networks">
        <Lines label="Networks" lines={networkLines(readiness)} />
      </Section>
      <Section title="Operators">
        {operators.length === 0 ? (
          'No operators beside those of OpenShift.'
        ) : (
          <List isPlain aria-label="Operators">
            {operators.map((name) => (
              <ListItem key={name}>{operatorName(name)}</ListItem>
            ))}
          </List>
        )}
      </Section>
      <Manifests id={readiness.details.id} />
    </Stack>
  );
};

const Section = ({ title, children }: { title: string; children: ReactNode }) => (
  <StackItem>
    <Card isCompact component="section" aria-label={title}>
      <CardTitle component="h3">{title}</CardTitle>
      <CardBody>{children}</CardBody>
    </Card>
  </StackItem>
);

const Lines = ({ label, lines }: { label: string; lines: Line[] }) => (
  <DescriptionList isCompact orientation={{ sm: 'vertical', lg: 'horizontal' }} aria-label={label}>
    {lines.map(({ term, text }) => (
      <Fact key={term} term={term}>
        <span className="landfall-review-text">{text}</span>
      </Fact>
    ))}
  </DescriptionList>
);

const Hosts = ({ readiness }: { readiness: Readiness }) => (
  <Table variant="compact" data-testid="review-hosts">
    <caption className="pf-v6-screen-reader">Hosts of the installation</caption>
    <Thead>
      <Tr>
        <Th width={20}>Host</Th>
        <Th>Role</Th>
        <Th>State</Th>
        <Th>Hardware</Th>
        <Th>Addresses</Th>
        <Th>Installation disk</Th>
      </Tr>
    </Thead>
    <Tbody>
      {hostLines(readiness).map(({ row, role, addresses, disk }) => (
        <Tr key={row.id}>
          <Td dataLabel="Host">
            <Link to={`/hosts/${row.infra_env_id}/${row.id}`}>{row.name}</Link>
          </Td>
          <Td dataLabel="Role">{role}</Td>
          <Td dataLabel="State">
            <Label isCompact color={stateOf(row.status).color}>
              {stateOf(row.status).name}
            </Label>
            {problemOf(row) && <div className="landfall-subtle">{asSentence(problemOf(row))}</div>}
          </Td>
          <Td dataLabel="Hardware">{row.hardware ? hardwareOf(row.hardware) : 'Not reported yet'}</Td>
          <Td dataLabel="Addresses">{addresses}</Td>
          <Td dataLabel="Installation disk">
            {disk}{' '}
            <Label isCompact color="orange">
              Will be erased
            </Label>
          </Td>
        </Tr>
      ))}
    </Tbody>
  </Table>
);

const wait = (answer: unknown) => (answer ? undefined : 3_000);

/** The manifests that the installation adds; nothing if there are none. */
export const Manifests = ({ id }: { id: string }) => {
  const load = useCallback((signal: AbortSignal) => listManifests(id, signal), [id]);
  const { answer = [], error } = useAnswer(load, wait);
  if (error) {
    return (
      <Alert isInline variant="danger" title="The page could not read the custom manifests.">
        {sentenceOf(error)}
      </Alert>
    );
  }
  return (
    answer.length > 0 && (
      <Section title="Custom manifests">
        <List isPlain aria-label="Custom manifests">
          {answer.map(({ folder, file_name: name }) => (
            <ListItem key={`${folder}/${name}`}>
              {folder}/{name}
            </ListItem>
          ))}
        </List>
        <p>They can contradict the settings above. The installation fails if they do.</p>
      </Section>
    )
  );
};
