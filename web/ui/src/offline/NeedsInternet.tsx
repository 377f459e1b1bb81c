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

/** Shows the address of a page on the internet that a person wanted to follow, for a machine that can. */
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
        <p>Landfall does not open it. Read it on a machine that has a connection:</p>
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
