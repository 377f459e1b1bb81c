import {
  Alert,
  Bullseye,
  Content,
  EmptyState,
  ExpandableSection,
  Label,
  PageSection,
  SearchInput,
  Spinner,
  Stack,
  StackItem,
  Title,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useMemo, useState } from 'react';
import { Copyable } from '../image/Copyable';
import { getJSON, sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { curlLine, groupsOf, type Document, type Field, type Operation } from './document';

const address = '/api/assisted-install/v2/openapi';
const askForDocument = (signal: AbortSignal) => getJSON<Document>(address, signal);
const once = () => undefined;

/** The page with the OpenAPI document, which the appliance serves. */
const ReferencePage = () => {
  const { answer, error } = useAnswer(askForDocument, once);
  const [search, setSearch] = useState('');
  const groups = useMemo(() => (answer ? groupsOf(answer, search) : []), [answer, search]);
  usePageTitle('API');
  if (error) {
    return <Alert isInline variant="danger" title={sentenceOf(error)} />;
  }
  if (!answer) {
    return (
      <Bullseye>
        <Spinner aria-label="Loading the document" />
      </Bullseye>
    );
  }
  return (
    <>
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">API</Content>
        <Content component="p">{answer.info.title}.</Content>
        <Content component="p">{answer.info.description}</Content>
        <Content component="p">
          <a href={address} download="landfall-openapi.json">
            Download this document (OpenAPI 3)
          </a>
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Toolbar>
          <ToolbarContent>
            <ToolbarItem>
              <SearchInput
                aria-label="Search the operations"
                placeholder="Name, path or words"
                value={search}
                onChange={(_event, value) => {
                  setSearch(value);
                }}
                onClear={() => {
                  setSearch('');
                }}
              />
            </ToolbarItem>
          </ToolbarContent>
        </Toolbar>
        {groups.length === 0 && <EmptyState headingLevel="h2" titleText="No operation contains these words" />}
        <Stack hasGutter>
          {groups.map(({ name, operations }) => (
            <StackItem key={name}>
              <Title headingLevel="h2">{name}</Title>
              {operations.map((operation) => (
                <OperationSection key={operation.id} operation={operation} />
              ))}
            </StackItem>
          ))}
        </Stack>
      </PageSection>
    </>
  );
};

export default ReferencePage;

const colors: Record<string, 'blue' | 'green' | 'orange' | 'teal' | 'red'> = {
  GET: 'blue',
  POST: 'green',
  PUT: 'orange',
  PATCH: 'teal',
  DELETE: 'red',
};

/** One operation; its parameters and responses are rendered when it is opened. */
const OperationSection = ({ operation }: { operation: Operation }) => {
  const [open, setOpen] = useState(false);
  return (
    <ExpandableSection
      className="landfall-operation"
      data-testid="operation"
      isExpanded={open}
      onToggle={(_event, expanded) => {
        setOpen(expanded);
      }}
      toggleContent={
        <>
          <Label color={colors[operation.method] ?? 'grey'}>{operation.method}</Label>{' '}
          <code>{operation.path}</code>{' '}
          {operation.summary}
          {operation.added && (
            <>
              {' '}
              <Label variant="outline">Landfall&apos;s own</Label>
            </>
          )}
        </>
      }
    >
      {open && <Details operation={operation} />}
    </ExpandableSection>
  );
};

const Details = ({ operation }: { operation: Operation }) => (
  <Stack hasGutter>
    <StackItem>
      <Content component="small">{operation.id}</Content>
    </StackItem>
    <StackItem>
      <Copyable label={`curl line for ${operation.id}`}>{curlLine(operation, window.location.origin)}</Copyable>
    </StackItem>
    {operation.parameters.length > 0 && (
      <StackItem>
        <Table aria-label="Parameters" variant="compact">
          <Thead>
            <Tr>
              <Th>Parameter</Th>
              <Th>In</Th>
              <Th>Takes</Th>
            </Tr>
          </Thead>
          <Tbody>
            {operation.parameters.map(({ name, place, required, type }) => (
              <Tr key={`${place} ${name}`}>
                <Td dataLabel="Parameter">
                  <code>{name}</code> {required && <Label isCompact>required</Label>}
                </Td>
                <Td dataLabel="In">{place}</Td>
                <Td dataLabel="Takes" modifier="breakWord">
                  {type}
                </Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      </StackItem>
    )}
    {operation.bodyType !== '' && (
      <StackItem>
        <Content component="p">The body is of the type {operation.bodyType}.</Content>
        {operation.body.length > 0 && <Fields fields={operation.body} />}
      </StackItem>
    )}
    <StackItem>
      <Table aria-label="Answers" variant="compact">
        <Thead>
          <Tr>
            <Th>Status</Th>
            <Th>Meaning</Th>
            <Th>Body</Th>
          </Tr>
        </Thead>
        <Tbody>
          {operation.answers.map(({ status, meaning, type }) => (
            <Tr key={status}>
              <Td dataLabel="Status">{status}</Td>
              <Td dataLabel="Meaning">{meaning}</Td>
              <Td dataLabel="Body" modifier="breakWord">
                {type}
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </StackItem>
  </Stack>
);

const Fields = ({ fields }: { fields: Field[] }) => (
  <Table aria-label="Fields of the body" variant="compact">
    <Thead>
      <Tr>
        <Th>Field</Th>
        <Th>Takes</Th>
      </Tr>
    </Thead>
    <Tbody>
      {fields.map(({ name, depth, required, type }, index) => (
        <Tr key={index}>
          <Td dataLabel="Field">
            <code style={{ paddingInlineStart: `${String(depth * 1.5)}rem` }}>{name}</code>{' '}
            {required && <Label isCompact>required</Label>}
          </Td>
          <Td dataLabel="Takes" modifier="breakWord">
            {type}
          </Td>
        </Tr>
      ))}
    </Tbody>
  </Table>
);
