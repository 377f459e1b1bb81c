import {
  Button,
  Content,
  Form,
  FormGroup,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from '@patternfly/react-core';
import { useState } from 'react';
import type { Act } from '../shell/useAct';
import { editCluster, type ClusterLine } from './api';

type Props = { line: ClusterLine; by: string; act: Act; onClose: () => void };

/** Values that are sent to AMS instead of the cluster's own. */
export const EditDialog = ({ line, by, act, onClose }: Props) => {
  const [name, setName] = useState(line.edited.display_name ?? '');
  const [url, setURL] = useState(line.edited.console_url ?? '');
  const send = async () => {
    const fields = {
      ...(name.trim() !== '' && { display_name: name.trim() }),
      ...(url.trim() !== '' && { console_url: url.trim() }),
    };
    await act(() => editCluster(line.cluster_id, fields, by));
    onClose();
  };
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label="Edit the values to send">
      <ModalHeader title={`Values for OpenShift Cluster Manager: ${line.name}`} />
      <ModalBody>
        <Content component="p">If a field is empty, the cluster&apos;s own value is sent.</Content>
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            void send();
          }}
        >
          <FormGroup label="Name" fieldId="ams-name">
            <TextInput
              id="ams-name"
              value={name}
              onChange={(_event, value) => {
                setName(value);
              }}
            />
          </FormGroup>
          <FormGroup label="URL of the console" fieldId="ams-url">
            <TextInput
              id="ams-url"
              value={url}
              onChange={(_event, value) => {
                setURL(value);
              }}
            />
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button onClick={() => void send()}>Send</Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
