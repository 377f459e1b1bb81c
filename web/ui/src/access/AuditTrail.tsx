import {
  Alert,
  Button,
  Content,
  Flex,
  FlexItem,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Label,
  List,
  ListItem,
  Stack,
  StackItem,
  TextInput,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useCallback, useState } from 'react';
import { readFleet } from '../fleet/api';
import { ActionButton } from '../shell/ActionButton';
import { PageStatus } from '../shell/PageStatus';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import {
  actorOf,
  exportURL,
  listAudit,
  outcomeOf,
  reasonOf,
  subjectOf,
  unreadOf,
  verifyAudit,
  type Filter,
  type Report,
} from './audit';

const pageSize = 50;
const all: Filter = { member: '', person: '', operation: '', since: '', until: '' };
const inputs: { key: Exclude<keyof Filter, 'member'>; label: string; isTime?: boolean }[] = [
  { key: 'person', label: 'Person or program' },
  { key: 'operation', label: 'Operation' },
  { key: 'since', label: 'From', isTime: true },
  { key: 'until', label: 'Until', isTime: true },
];
const often = () => 10_000;
const once = () => undefined;

const times = new Intl.DateTimeFormat('default', { dateStyle: 'medium', timeStyle: 'medium' });

/** Every change and every reading of a secret, the newest first, in the trail of one member. */
export const AuditTrail = () => {
  const [filter, setFilter] = useState(all);
  // The first item of each page that was passed; the newest page begins with 0.
  const [pages, setPages] = useState([0]);
  const before = pages.at(-1) ?? 0;
  const load = useCallback((signal: AbortSignal) => listAudit(filter, before, pageSize, signal), [filter, before]);
  const { answer, error, refetch } = useAnswer(load, before === 0 ? often : once);
  const { act, failure } = useAct(refetch);
  const [report, setReport] = useState<Report>();
  const choose = (change: Partial<Filter>) => {
    setFilter({ ...filter, ...change });
    setPages([0]);
  };
  const next = answer?.next ?? 0;
  return (
    <Stack hasGutter data-testid="audit">
      <PageStatus failure={failure} error={error} hasAnswer={answer !== undefined} waiting="Reading the audit trail" />
      <StackItem>
        <Flex gap={{ default: 'gapMd' }} alignItems={{ default: 'alignItemsFlexEnd' }}>
          <MemberSelect
            value={filter.member}
            onChange={(member) => {
              choose({ member });
              setReport(undefined);
            }}
          />
          {inputs.map(({ key, label, isTime }) => (
            <FlexItem key={key}>
              <FormGroup label={label} fieldId={`audit-${key}`}>
                <TextInput
                  id={`audit-${key}`}
                  type={isTime ? 'datetime-local' : 'text'}
                  value={filter[key]}
                  onChange={(_event, value) => {
                    choose({ [key]: value });
                  }}
                />
              </FormGroup>
            </FlexItem>
          ))}
          <FlexItem align={{ default: 'alignRight' }}>
            <ActionButton
              variant="secondary"
              onAct={() =>
                act(async () => {
                  setReport(await verifyAudit(filter.member));
                })
              }
            >
              Verify
            </ActionButton>{' '}
            <Button variant="secondary" component="a" href={exportURL(filter.member)} download>
              Export
            </Button>
          </FlexItem>
        </Flex>
      </StackItem>
      {report && (
        <StackItem>
          <Verified report={report} />
        </StackItem>
      )}
      {answer?.unread && (
        <StackItem>
          <Alert isInline variant="danger" title="The records in damaged parts of the audit trail are not shown">
            {answer.unread.map(unreadOf).join(' ')}
          </Alert>
        </StackItem>
      )}
      <StackItem>
        <Table aria-label="Audit trail" variant="compact">
          <Thead>
            <Tr>
              <Th>Time</Th>
              <Th>Who</Th>
              <Th>Address</Th>
              <Th>What</Th>
              <Th>Outcome</Th>
            </Tr>
          </Thead>
          <Tbody>
            {answer?.items.map((item) => {
              const { text, isBad } = outcomeOf(item);
              const reason = reasonOf(item);
              return (
                <Tr key={item.seq} data-testid="audit-item">
                  <Td dataLabel="Time" modifier="nowrap">
                    {times.format(new Date(item.time))}
                  </Td>
                  <Td dataLabel="Who">
                    {actorOf(item)}
                    {item.actor?.role && <div className="landfall-subtle">{item.actor.role}</div>}
                  </Td>
                  <Td dataLabel="Address">{item.actor?.address}</Td>
                  <Td dataLabel="What" modifier="breakWord">
                    {subjectOf(item)}{' '}
                    {item.secret && (
                      <Label isCompact color="orange">
                        secret
                      </Label>
                    )}
                    {item.path && <div className="landfall-subtle">{item.path}</div>}
                    {reason !== '' && <div>{reason}</div>}
                  </Td>
                  <Td dataLabel="Outcome">{isBad ? <Label color="red">{text}</Label> : text}</Td>
                </Tr>
              );
            })}
          </Tbody>
        </Table>
        {answer?.items.length === 0 && <Content component="p">No record matches.</Content>}
        <Flex className="landfall-row">
          <Button
            variant="secondary"
            isDisabled={pages.length === 1}
            onClick={() => {
              setPages(pages.slice(0, -1));
            }}
          >
            Newer
          </Button>
          <Button
            variant="secondary"
            isDisabled={next === 0}
            onClick={() => {
              setPages([...pages, next]);
            }}
          >
            Older
          </Button>
        </Flex>
      </StackItem>
    </Stack>
  );
};

/** The choice of the member of a fleet whose trail is shown; nothing on a single machine. */
const MemberSelect = ({ value, onChange }: { value: string; onChange: (member: string) => void }) => {
  const { answer: fleet } = useAnswer(readFleet, once);
  if (!fleet || fleet.fleet === '') {
    return null;
  }
  return (
    <FlexItem>
      <FormGroup label="Audit trail of" fieldId="audit-member">
        <FormSelect
          id="audit-member"
          value={value}
          onChange={(_event, chosen) => {
            onChange(chosen);
          }}
        >
          <FormSelectOption
            value=""
            label={fleet.leading === '' ? `${fleet.member}: no member leads` : 'the member that leads'}
          />
          {fleet.members.map(({ name }) => (
            <FormSelectOption key={name} value={name} label={name} />
          ))}
        </FormSelect>
      </FormGroup>
    </FlexItem>
  );
};

const Verified = ({ report: { problems = [], notes = [], records, last, keys } }: { report: Report }) => (
  <Alert
    isInline
    variant={problems.length > 0 ? 'danger' : 'success'}
    title={
      problems.length > 0
        ? 'The audit trail was altered or shortened.'
        : `All ${String(records)} records are unaltered.`
    }
    data-testid="audit-report"
  >
    <List isPlain>
      {[...problems, ...notes].map((finding) => (
        <ListItem key={finding}>{finding}</ListItem>
      ))}
      <ListItem>
        To detect missing records later, note the head{' '}
        <code className="landfall-address">
          {last.seq}:{last.hash}
        </code>{' '}
        at another place.
      </ListItem>
      <ListItem>
        Signed by <code className="landfall-address">{keys.join(', ')}</code>
      </ListItem>
    </List>
  </Alert>
);
