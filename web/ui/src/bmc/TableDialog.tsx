import {
  Alert,
  Button,
  Content,
  Form,
  FormGroup,
  List,
  ListItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextArea,
} from '@patternfly/react-core';
import { useState } from 'react';
import { sentenceOf } from '../shell/request';
import { importTable, type Imported } from './api';
import { columns } from './words';

/** Imports a table of servers, as pasted from a spreadsheet, and reports the result of each row. */
export const TableDialog = ({ onClose }: { onClose: () => void }) => {
  const [table, setTable] = useState('');
  const [checked, setChecked] = useState<{ dry: boolean; outcome: Imported }>();
  const [failure, setFailure] = useState('');
  const send = async (dry: boolean) => {
    try {
      const outcome = await importTable(table, dry);
      setFailure('');
      if (!dry && outcome.failed === 0) {
        onClose();
        return;
      }
      setChecked({ dry, outcome });
    } catch (thrown) {
      setChecked(undefined);
      setFailure(sentenceOf(thrown));
    }
  };
  const empty = table.trim() === '';
  return (
    <Modal isOpen variant="large" onClose={onClose} aria-label="Paste a table of servers">
      <ModalHeader title="Paste a table of servers" />
      <ModalBody>
        <Content component="p">
          One row for each server, with commas, semicolons or tabs between the columns. With a header row, the columns
          may be in any order; without it they are {columns}.
        </Content>
        <Form>
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
                setChecked(undefined);
              }}
            />
          </FormGroup>
          {failure !== '' && <Alert isInline variant="danger" title={failure} />}
          {checked && <Outcome {...checked} />}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button isDisabled={empty} onClick={() => void send(false)}>
          Add the servers
        </Button>
        <Button variant="secondary" isDisabled={empty} onClick={() => void send(true)}>
          Check
        </Button>
        <Button variant="link" onClick={onClose}>
          Close
        </Button>
      </ModalFooter>
    </Modal>
  );
};

const Outcome = ({ dry, outcome: { added, failed, rows } }: { dry: boolean; outcome: Imported }) => (
  <Alert
    isInline
    variant={failed > 0 ? 'warning' : 'success'}
    title={`${String(added)} ${dry ? 'can be added' : 'were added'}, ${String(failed)} not.`}
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
