import { Button, Checkbox, Modal, ModalBody, ModalFooter, ModalHeader } from '@patternfly/react-core';
import { useState } from 'react';
import { remove, type Server } from './api';
import type { Act } from '../shell/useAct';

/** Removes a server: ejects its media and optionally powers it off. */
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
        <p>The appliance ejects the image and deletes the server with its credentials.</p>
        <Checkbox
          id="bmc-power-off"
          label="Power off the server"
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
