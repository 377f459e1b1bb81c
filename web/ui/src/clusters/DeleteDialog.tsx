import {
  Alert,
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
import { sentenceOf } from '../shell/request';
import { remove } from './api';

type Props = {
  cluster: { id: string; name: string; status: string };
  onDone: () => void;
  onClose: () => void;
};

/** Asks before a cluster is deleted: says what is lost and what runs on, and wants the name. */
export const DeleteDialog = ({ cluster: { id, name, status }, onDone, onClose }: Props) => {
  const [typed, setTyped] = useState('');
  const [failure, setFailure] = useState('');
  const [isDeleting, setDeleting] = useState(false);
  const isInstalled = ['installed', 'adding-hosts'].includes(status);
  const act = async () => {
    setDeleting(true);
    try {
      await remove(id);
      onDone();
    } catch (error) {
      setFailure(sentenceOf(error));
      setDeleting(false);
    }
  };
  return (
    <Modal isOpen variant="small" aria-label={`Delete cluster ${name}`} elementToFocus="#delete-name" onClose={onClose}>
      <ModalHeader title={`Delete cluster ${name}?`} titleIconVariant="warning" />
      <ModalBody>
        <Content component="p">This removes from Landfall and cannot be undone:</Content>
        <Content component="ul">
          <li>the settings and manifests of the cluster</li>
          <li>its infra-envs with their discovery images and registered hosts</li>
          <li>
            {isInstalled ? 'its kubeconfig, the password of kubeadmin and its logs' : 'its logs'}. Events and journal
            can no longer be opened from the page.
          </li>
        </Content>
        {isInstalled ? (
          <Alert isInline isPlain variant="info" title="The installed cluster runs on.">
            Its nodes and workloads are not changed. Save the kubeconfig and the password first: without them, nobody
            may be able to log in.
          </Alert>
        ) : (
          <Alert isInline isPlain variant="info" title="The hosts stay switched on.">
            A host that runs the discovery image is refused from then on. What is on the disks stays there.
          </Alert>
        )}
        {failure && <Alert isInline variant="danger" title={failure} />}
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            if (typed === name) {
              void act();
            }
          }}
        >
          <FormGroup label={`Type the name ${name} to confirm`} fieldId="delete-name" isRequired>
            <TextInput
              id="delete-name"
              value={typed}
              autoComplete="off"
              onChange={(_event, value) => {
                setTyped(value);
              }}
            />
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button
          variant="danger"
          isDisabled={typed !== name || isDeleting}
          isLoading={isDeleting}
          onClick={() => void act()}
        >
          Delete cluster
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
