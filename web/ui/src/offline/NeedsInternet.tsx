import {
  Button,
  ClipboardCopy,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
} from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import { blockedLink } from './links';

/**
 * Shows the address of an internet page that the user selected. The user can open it on a connected
 * machine.
 */
export const NeedsInternet = () => {
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    const show = (event: Event) => {
      setAddress((event as CustomEvent<string>).detail);
    };
    window.addEventListener(blockedLink, show);
    return () => {
      window.removeEventListener(blockedLink, show);
    };
  }, []);
  const close = () => {
    setAddress(undefined);
  };
  return (
    <Modal
      isOpen={address !== undefined}
      onClose={close}
      variant="small"
      aria-label="This page needs the internet"
    >
      <ModalHeader title="This page needs the internet" />
      <ModalBody>
        <p>Landfall does not open the page. Open the page on a machine with internet access:</p>
        <ClipboardCopy isReadOnly hoverTip="Copy" clickTip="Copied">
          {address ?? ''}
        </ClipboardCopy>
      </ModalBody>
      <ModalFooter>
        <Button onClick={close}>Close</Button>
      </ModalFooter>
    </Modal>
  );
};
