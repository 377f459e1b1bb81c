import {
  Button,
  Card,
  CardBody,
  Flex,
  FlexItem,
  Progress,
  ProgressMeasureLocation,
  ProgressVariant,
} from '@patternfly/react-core';
import { useRef, useState, type ChangeEvent } from 'react';
import { Confirm } from '../shell/Confirm';
import { percentOf } from '../shell/quantities';
import { describeUpload } from './describe';
import type { UploadView } from './upload';
import { useUploads, useUploadViews } from './UploadsProvider';

/** The uploads of this browser, with progress and actions. */
export const UploadList = () => {
  const views = useUploadViews();
  if (views.length === 0) {
    return null;
  }
  return (
    <section aria-label="Uploads" data-testid="uploads" className="landfall-uploads">
      {views.map((view) => (
        <UploadCard key={view.key} view={view} />
      ))}
    </section>
  );
};

const UploadCard = ({ view }: { view: UploadView }) => (
  <Card isCompact data-testid="upload" data-state={view.state}>
    <CardBody>
      <Flex alignItems={{ default: 'alignItemsCenter' }} flexWrap={{ default: 'nowrap' }} gap={{ default: 'gapLg' }}>
        <FlexItem grow={{ default: 'grow' }}>
          <Progress
            id={view.key}
            title={view.name}
            value={percentOf(view.sent, view.size)}
            label={`${String(Math.floor(percentOf(view.sent, view.size)))} %`}
            measureLocation={ProgressMeasureLocation.outside}
            {...variantOf(view)}
            aria-label={`Upload of ${view.name}`}
            helperText={<span role="status">{describeUpload(view)}</span>}
          />
        </FlexItem>
        <FlexItem>
          <Actions view={view} />
        </FlexItem>
      </Flex>
    </CardBody>
  </Card>
);

const variantOf = ({ state }: UploadView): { variant?: ProgressVariant } => {
  switch (state) {
    case 'failed':
      return { variant: ProgressVariant.danger };
    case 'waiting':
      return { variant: ProgressVariant.warning };
    case 'done':
      return { variant: ProgressVariant.success };
    default:
      return {};
  }
};

const Actions = ({ view: { key, name, state } }: { view: UploadView }) => {
  const uploads = useUploads();
  const [isCancelling, setCancelling] = useState(false);
  const upload = uploads.of(key);
  if (!upload) {
    return null;
  }
  if (state === 'done') {
    return (
      <Button
        variant="link"
        onClick={() => {
          uploads.remove(key);
        }}
        aria-label={`Dismiss the upload of ${name}`}
      >
        Dismiss
      </Button>
    );
  }
  if (state === 'elsewhere') {
    return null; // the other tab has the buttons
  }
  return (
    <Flex gap={{ default: 'gapSm' }} flexWrap={{ default: 'nowrap' }}>
      {(state === 'sending' || state === 'waiting') && (
        <Button variant="secondary" onClick={upload.pause} aria-label={`Pause the upload of ${name}`}>
          Pause
        </Button>
      )}
      {(state === 'paused' || state === 'failed') && (
        <Button
          variant="secondary"
          onClick={() => {
            upload.resume();
          }}
          aria-label={`${state === 'paused' ? 'Resume' : 'Try again'} the upload of ${name}`}
        >
          {state === 'paused' ? 'Resume' : 'Try again'}
        </Button>
      )}
      {state === 'unfinished' && <ChooseAgain name={name} onChoose={upload.resume} />}
      <Button
        variant="link"
        isDanger
        onClick={() => {
          setCancelling(true);
        }}
        aria-label={`Cancel the upload of ${name}`}
      >
        Cancel
      </Button>
      {isCancelling && (
        <Confirm
          title={`Cancel the upload of ${name}?`}
          action="Cancel the upload"
          dismiss="Keep the upload"
          onConfirm={() => void upload.cancel()}
          onClose={() => {
            setCancelling(false);
          }}
        >
          The appliance deletes the part of the file that it has received.
        </Confirm>
      )}
    </Flex>
  );
};

const ChooseAgain = ({ name, onChoose }: { name: string; onChoose: (file: File) => void }) => {
  const input = useRef<HTMLInputElement>(null);
  const choose = (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0];
    if (file) {
      onChoose(file);
    }
    event.target.value = '';
  };
  return (
    <>
      <input ref={input} type="file" hidden onChange={choose} data-testid="choose-again" />
      <Button
        variant="secondary"
        onClick={() => input.current?.click()}
        aria-label={`Choose ${name} again`}
      >
        Choose the file
      </Button>
    </>
  );
};
