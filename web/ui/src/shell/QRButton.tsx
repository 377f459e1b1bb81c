import { Button, Modal, ModalBody, ModalHeader, Spinner } from '@patternfly/react-core';
import QrcodeIcon from '@patternfly/react-icons/dist/esm/icons/qrcode-icon';
import { Suspense, useState } from 'react';
import { lazyAgain } from './lazyAgain';

const QRCode = lazyAgain(() => import('./QRCode'));

type Props = {
  /** What is at the URL. */
  label: string;
  url: string;
};

/** Shows a URL as a QR code, for a phone or another machine. */
export const QRButton = ({ label, url }: Props) => {
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
  };
  return (
    <>
      <Button
        variant="control"
        icon={<QrcodeIcon />}
        aria-label={`Show as a QR code: ${label}`}
        onClick={() => {
          setOpen(true);
        }}
      />
      {isOpen && (
        <Modal isOpen variant="small" aria-label={`QR code: ${label}`} onClose={close}>
          <ModalHeader title={label} />
          <ModalBody>
            <Suspense fallback={<Spinner aria-label="Loading the QR code" />}>
              <QRCode url={url} />
            </Suspense>
          </ModalBody>
        </Modal>
      )}
    </>
  );
};

/** Whether another machine can open a text as a URL. */
export const isURL = (text: string): boolean => /^https?:\/\/\S+$/.test(text);
