import {
  Alert,
  Button,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from '@patternfly/react-core';
import { useState } from 'react';
import { sentenceOf } from '../shell/request';
import { addManagement } from './api';

const empty = { consumer: '', base_domain: '', address: '', profiles: '' };

const fields: { key: keyof typeof empty; label: string; help: string; required?: boolean }[] = [
  { key: 'consumer', label: 'Name', help: 'Lower-case letters, digits and hyphens. It never changes.', required: true },
  {
    key: 'base_domain',
    label: 'Base domain',
    help: 'The hosted clusters have their domains below it, for example hosted.example.com.',
    required: true,
  },
  {
    key: 'address',
    label: 'Address of the nodes',
    help: 'The control planes are reached at this address and ports from 30000. Empty: by load balancers.',
  },
  {
    key: 'profiles',
    label: 'Hardware profiles',
    help: 'The values of the label landfall.io/hardware-profile on its Agents, with commas. Empty: any.',
  },
];

/** The dialog to use a cluster for the control planes of hosted clusters. */
export const ManagementDialog = ({ onClose }: { onClose: () => void }) => {
  const [wanted, setWanted] = useState(empty);
  const [failure, setFailure] = useState('');
  const complete = wanted.consumer.trim() !== '' && wanted.base_domain.trim() !== '';
  const add = async () => {
    try {
      await addManagement({
        consumer: wanted.consumer.trim(),
        base_domain: wanted.base_domain.trim(),
        publish: wanted.address.trim() === '' ? 'LoadBalancer' : 'NodePort',
        address: wanted.address.trim(),
        profiles: wanted.profiles
          .split(',')
          .map((profile) => profile.trim())
          .filter((profile) => profile !== ''),
      });
      onClose();
    } catch (thrown) {
      setFailure(sentenceOf(thrown));
    }
  };
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label="Use a cluster for control planes">
      <ModalHeader title="Use a cluster for control planes" />
      <ModalBody>
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            if (complete) {
              void add();
            }
          }}
        >
          {failure !== '' && <Alert isInline variant="danger" title={failure} />}
          {fields.map(({ key, label, help, required }) => (
            <FormGroup key={key} label={label} fieldId={`management-${key}`} isRequired={required ?? false}>
              <TextInput
                id={`management-${key}`}
                autoComplete="off"
                value={wanted[key]}
                onChange={(_event, value) => {
                  setWanted({ ...wanted, [key]: value });
                }}
              />
              <FormHelperText>
                <HelperText>
                  <HelperTextItem>{help}</HelperTextItem>
                </HelperText>
              </FormHelperText>
            </FormGroup>
          ))}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button isDisabled={!complete} onClick={() => void add()}>
          Use it
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
