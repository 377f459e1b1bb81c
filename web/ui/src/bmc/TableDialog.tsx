import { Alert, Content, FormGroup, List, ListItem, TextArea } from '@patternfly/react-core';
import { useRef, useState } from 'react';
import { ActionButton } from '../shell/ActionButton';
import { FormDialog } from '../shell/FormDialog';
import { sentenceOf } from '../shell/request';
import { importTable, type Imported } from './api';
import { columns } from './words';

/** Imports a table of servers, as pasted from a spreadsheet, and reports the result of each row. */
export const TableDialog = ({ onClose }: { onClose: () => void }) => {
  const [table, setTable] = useState('');
  const [outcome, setOutcome] = useState<{ isCheck: boolean; imported: Imported }>();
  const [failure, setFailure] = useState('');
  const [isAdding, setAdding] = useState(false);
  // Counts what makes the answer of an earlier check out of date: a changed table, and an addition.
  const latest = useRef(0);
  const isComplete = table.trim() !== '';
  const clear = (): number => {
    setOutcome(undefined);
    setFailure('');
    latest.current += 1;
    return latest.current;
  };
  const check = async () => {
    const began = clear();
    try {
      const imported = await importTable(table, true);
      if (latest.current === began) {
        setOutcome({ isCheck: true, imported });
      }
    } catch (thrown) {
      if (latest.current === began) {
        setFailure(sentenceOf(thrown));
      }
    }
  };
  const send = async () => {
    clear();
    setAdding(true);
    try {
      const imported = await importTable(table, false);
      if (imported.failed > 0) {
        setOutcome({ isCheck: false, imported });
        throw new Error('Some servers were not added.');
      }
    } finally {
      setAdding(false);
    }
  };
  return (
    <FormDialog
      title="Paste a table of servers"
      action="Add the servers"
      variant="large"
      isComplete={isComplete}
      onSend={send}
      onClose={onClose}
    >
      <Content component="p">
        One row for each server, with commas, semicolons or tabs between the columns. With a header row, the columns may
        be in any order; without it they are {columns}.
      </Content>
      <FormGroup label="Table" fieldId="bmc-table">
        <TextArea
          id="bmc-table"
          className="landfall-yaml"
          rows={10}
          resizeOrientation="vertical"
          placeholder={`${columns}\nnode-1,192.0.2.7,root,secret,52:54:00:00:00:01,site,yes`}
          value={table}
          onChange={(_event, value) => {
            setTable(value);
            clear();
          }}
        />
      </FormGroup>
      <div>
        <ActionButton variant="secondary" isDisabled={!isComplete || isAdding} onAct={check}>
          Check
        </ActionButton>
      </div>
      {failure !== '' && <Alert isInline variant="danger" title={failure} />}
      {outcome && <Outcome {...outcome} />}
    </FormDialog>
  );
};

const Outcome = ({
  isCheck,
  imported: { added, failed, rows },
}: {
  isCheck: boolean;
  imported: Imported;
}) => (
  <Alert
    isInline
    variant={failed > 0 ? 'warning' : 'success'}
    title={`${String(added)} ${isCheck ? 'can be added' : 'were added'}, ${String(failed)} not.`}
    data-testid="bmc-rows"
  >
    <List isPlain>
      {rows
        .filter(({ error }) => error)
        .map(({ line, name, error }) => (
          <ListItem key={line}>
            Line {line}
            {name && `, ${name}`}: {error}
          </ListItem>
        ))}
    </List>
  </Alert>
);
