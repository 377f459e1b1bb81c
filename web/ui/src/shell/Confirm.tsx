import { Button, Modal, ModalBody, ModalFooter, ModalHeader } from '@patternfly/react-core';
import type { ReactNode } from 'react';

type Props = {
  /** A question, such as "Revoke the token?". */
  title: string;
  /** The text of the button. */
  action: string;
  /** The text of the button that does nothing; "Cancel" if it is missing. */
  dismiss?: string;
  /** What happens. */
  children: ReactNode;
  onConfirm: () => void;
  onClose: () => void;
};

/** Asks before an action that cannot be undone. */
export const Confirm = ({ title, action, dismiss = 'Cancel', children, onConfirm, onClose }: Props) => (
  <Modal isOpen variant="small" aria-label={title} onClose={onClose}>
    <ModalHeader title={title} titleIconVariant="warning" />
    <ModalBody>{children}</ModalBody>
    <ModalFooter>
      <Button
        variant="danger"
        onClick={() => {
          onClose();
          onConfirm();
        }}
      >
        {action}
      </Button>
      <Button variant="link" onClick={onClose}>
        {dismiss}
      </Button>
    </ModalFooter>
  </Modal>
);
