import { Button, Content, Form, FormGroup, Modal, ModalBody, ModalFooter, ModalHeader } from '@patternfly/react-core';
import { useState } from 'react';
import { boot, type InfraEnv, type Server } from './api';
import type { Act } from '../shell/useAct';
import { InfraEnvSelect } from './InfraEnvSelect';

type Props = { server: Server; infraEnvs: InfraEnv[]; act: Act; onClose: () => void };

/** Boots a server immediately. */
export const BootDialog = ({ server, infraEnvs, act, onClose }: Props) => {
  const [infraEnv, setInfraEnv] = useState(server.infra_env_id ?? '');
  const send = async () => {
    await act(() => boot(server.id, infraEnv));
    onClose();
  };
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label="Boot this server now">
      <ModalHeader title={`Boot ${server.name} now`} />
      <ModalBody>
        <Content component="p">
          The server restarts immediately, even if a system runs on it, and boots the image once.
        </Content>
        <Form>
          <FormGroup label="From the image of" fieldId="bmc-boot">
            <InfraEnvSelect
              id="bmc-boot"
              infraEnvs={infraEnvs}
              none="choose an infra-env"
              value={infraEnv}
              onChange={setInfraEnv}
            />
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button isDisabled={infraEnv === ''} onClick={() => void send()}>
          Boot it
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
