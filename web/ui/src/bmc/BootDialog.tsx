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
import { boot, hostEndedBy, type InfraEnv, type Server } from './api';
import type { Act } from '../shell/useAct';
import { InfraEnvSelect } from './InfraEnvSelect';

type Props = { server: Server; infraEnvs: InfraEnv[]; act: Act; onClose: () => void };

/**
 * Boots a server immediately. If that would end the host on the server, its user types the host's
 * name first.
 */
export const BootDialog = ({ server, infraEnvs, act, onClose }: Props) => {
  const [infraEnv, setInfraEnv] = useState(server.infra_env_id ?? '');
  const [ended, setEnded] = useState<{ host: string; sentence: string }>();
  const [typed, setTyped] = useState('');
  const send = () =>
    act(async () => {
      try {
        await boot(server.id, infraEnv, ended !== undefined);
        onClose();
      } catch (thrown) {
        const host = hostEndedBy(thrown);
        if (host === undefined) {
          onClose();
          throw thrown;
        }
        setEnded({ host, sentence: sentenceOf(thrown) });
      }
    });
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
          {ended && (
            <>
              <Alert isInline variant="danger" title={ended.sentence} data-testid="bmc-ends" />
              <FormGroup label={`Type ${ended.host} to end this host`} fieldId="bmc-boot-host">
                <TextInput
                  id="bmc-boot-host"
                  value={typed}
                  onChange={(_event, value) => {
                    setTyped(value);
                  }}
                />
              </FormGroup>
            </>
          )}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button
          variant={ended ? 'danger' : 'primary'}
          isDisabled={infraEnv === '' || (ended !== undefined && typed.trim() !== ended.host)}
          onClick={() => void send()}
        >
          Boot it
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
