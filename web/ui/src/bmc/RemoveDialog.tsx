import { Button, Checkbox, Modal, ModalBody, ModalFooter, ModalHeader } from '@patternfly/react-core';
import { useState } from 'react';
import { remove, type Server } from './api';
import type { Act } from '../shell/useAct';

/** Forgets a server, with its media ejected and, if wanted, its power off. */
export const RemoveDialog = ({ server, act, onClose }: { server: Server; act: Act; onClose: () => void }) => {
  const [off, setOff] = useState(false);
  const send = async () => {
    await act(() => remove(server.id, off));
    onClose();
  };
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label="Remove a server">
      <ModalHeader title={`Remove ${server.name}`} />
      <ModalBody>
        <p>The image is taken out of its drive, and the appliance forgets the server and its credentials.</p>
        <Checkbox
          id="bmc-power-off"
          label="Switch it off, too"
          isChecked={off}
          onChange={(_event, checked) => {
            setOff(checked);
          }}
        />
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" onClick={() => void send()}>
          Remove
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
