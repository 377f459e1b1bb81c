import {
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  Flex,
  FlexItem,
  List,
  ListItem,
  TextInput,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { sentenceOf } from '../shell/request';
import { usePages } from '../shell/table';
import { useAction } from '../shell/useAction';
import { useKept } from '../shell/useKept';
import { explain, type Explanation, type MirrorModel, type Rule } from './api';
import { Holes } from './Holes';

const uses = { all: '', 'digest-only': ' (digests)', 'tag-only': ' (tags)' } as const;
const mirrorsOf = ({ mirrors }: Rule) => mirrors.map((m) => m.location + uses[m.for]).join(', ') || 'none';

/** The rules, warnings about them, and their effect on an image. */
export const Rules = ({ model }: { model: MirrorModel }) => (
  <Card>
    <CardTitle>Rules</CardTitle>
    <CardBody>
      {model.problem !== undefined && <Alert isInline variant="danger" title={model.problem} />}
      <Holes holes={model.holes} />
      {model.rules.length > 0 ? (
        <RuleTable rules={model.rules} />
      ) : (
        <Content component="p">No mirror rules: each image is pulled from the registry in its name.</Content>
      )}
      {model.rules.length + model.catalogs.length + model.signatures.length > 0 && (
        <Content component="small">
          {model.catalogs.length} operator catalogs and the signatures of {model.signatures.length} releases were
          imported with the rules.
        </Content>
      )}
      <Explainer model={model} />
    </CardBody>
  </Card>
);

const perPage = 20;

const RuleTable = ({ rules }: { rules: Rule[] }) => {
  const [text, setText] = useState('');
  const wanted = text.trim().toLowerCase();
  const found = rules.filter((rule) =>
    `${rule.prefix} ${mirrorsOf(rule)} ${rule.origin}`.toLowerCase().includes(wanted),
  );
  const { shown, control } = usePages(found, perPage, 'Pages of rules');
  return (
    <>
      {(rules.length > perPage || text !== '') && (
        <TextInput
          type="search"
          aria-label="Find rules"
          placeholder="Registry, mirror or origin"
          value={text}
          onChange={(_event, value) => {
            setText(value);
          }}
        />
      )}
      <Table aria-label="Rules" variant="compact" data-testid="rules">
        <Thead>
          <Tr>
            <Th>Images under</Th>
            <Th>Mirrors, in order</Th>
            <Th modifier="nowrap">Then the source</Th>
            <Th>From</Th>
          </Tr>
        </Thead>
        <Tbody>
          {shown.map((rule) => (
            <Tr key={rule.prefix} data-testid="rule">
              <Td dataLabel="Images under" modifier="breakWord">
                {rule.prefix}
              </Td>
              <Td dataLabel="Mirrors, in order" modifier="breakWord">
                {mirrorsOf(rule)}
              </Td>
              <Td dataLabel="Then the source">{rule.blocked ? 'never' : 'last'}</Td>
              <Td dataLabel="From" modifier="breakWord">
                {rule.origin}
              </Td>
            </Tr>
          ))}
          {shown.length === 0 && (
            <Tr>
              <Td colSpan={4}>No rule matches.</Td>
            </Tr>
          )}
        </Tbody>
      </Table>
      {found.length > perPage && control}
    </>
  );
};

const Explainer = ({ model }: { model: MirrorModel }) => {
  const { value: image, keep: setImage } = useKept<string>('mirror-image', (left = '') => left);
  const [explained, setExplained] = useState<Explanation>();
  const [failure, setFailure] = useState('');
  const { isRunning, run } = useAction();
  const submit = async () => {
    try {
      setExplained(await explain(model, image));
      setFailure('');
    } catch (thrown) {
      setExplained(undefined);
      setFailure(sentenceOf(thrown));
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run(submit);
      }}
    >
      <Flex flexWrap={{ default: 'nowrap' }}>
        <FlexItem grow={{ default: 'grow' }}>
          <TextInput
            aria-label="Image to explain"
            placeholder="Where does this image come from? quay.io/…@sha256:…"
            value={image}
            onChange={(_event, value) => {
              setImage(value);
            }}
          />
        </FlexItem>
        <Button
          type="submit"
          variant="secondary"
          isDisabled={image === ''}
          isAriaDisabled={isRunning}
          isLoading={isRunning}
        >
          Explain
        </Button>
      </Flex>
      {failure !== '' && <Alert isInline isPlain variant="danger" title={failure} />}
      {explained && (
        <>
          <List component="ol" aria-label="Sources in order">
            {explained.steps.map((step) => (
              <ListItem key={step.image}>
                {step.image} <Content component="small">{step.rule}</Content>
              </ListItem>
            ))}
          </List>
          {explained.notes.map((note) => (
            <Alert key={note} isInline isPlain variant="info" title={note} />
          ))}
        </>
      )}
    </form>
  );
};
