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

/** What AMS is told in place of what a cluster has. */
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
    <Modal isOpen variant="small" onClose={onClose} aria-label="Edit what is told">
      <ModalHeader title={`What OpenShift Cluster Manager is told of ${line.name}`} />
      <ModalBody>
        <Content component="p">What is left empty is told as the cluster has it.</Content>
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
        <Button onClick={() => void send()}>Tell it so</Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
