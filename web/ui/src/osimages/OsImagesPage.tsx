import {
  Alert,
  AlertActionCloseButton,
  Bullseye,
  Button,
  Content,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  PageSection,
  Spinner,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import CubesIcon from '@patternfly/react-icons/dist/esm/icons/cubes-icon';
import ExclamationCircleIcon from '@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon';
import UploadIcon from '@patternfly/react-icons/dist/esm/icons/upload-icon';
import { Suspense, type DragEvent, useEffect, useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import { useIsLimited, useMay } from '../access/AccessProvider';
import { FormDialog } from '../shell/FormDialog';
import { lazyAgain } from '../shell/lazyAgain';
import { sentenceOf } from '../shell/request';
import { useAnswer, type AnswerState } from '../shell/useAnswer';
import { usePageTitle } from '../shell/usePageTitle';
import { isArriving, listOsImages, removeOsImage, verifyOsImage, type OsImage } from './api';
import { isMoving } from './describe';
import { FetchDialog } from './FetchDialog';
import { nameOf, OsImageTable } from './OsImageTable';
import { UploadList } from './UploadList';
import { useUploadViews } from './UploadsProvider';

// The field for files is as large as the rest of the page.
const UploadDialog = lazyAgain(() => import('./UploadDialog'));

const often = 1_000;
const seldom = 5_000;
const wait = (images: OsImage[] | undefined) => (isMoving(images) ? often : seldom);

/** The page of the base ISOs: the list, and dialogs to add one. */
export const OsImagesPage = () => {
  const result = useAnswer(listOsImages, wait);
  const mayAdd = useMay('admin');
  const isLimited = useIsLimited();
  const [dialog, setDialog] = useState<{ name: 'upload'; dropped?: File | undefined } | { name: 'fetch' }>();
  useListAfterUploads(result.refetch);
  usePageTitle('OS images');
  const upload = () => {
    setDialog({ name: 'upload' });
  };
  const fetchOne = () => {
    setDialog({ name: 'fetch' });
  };
  const close = () => {
    setDialog(undefined);
    result.refetch();
  };
  return (
    <div
      className="landfall-drop"
      onDragOver={(event) => {
        event.preventDefault();
      }}
      onDrop={(event: DragEvent) => {
        event.preventDefault();
        if (mayAdd && !dialog && event.dataTransfer.files.length > 0) {
          setDialog({ name: 'upload', dropped: event.dataTransfer.files[0] });
        }
      }}
    >
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">OS images</Content>
        <Content component="p">
          Live ISOs of RHEL CoreOS, one for each OpenShift version and architecture. Landfall generates discovery images
          from these ISOs. A cluster or an infra-env also needs a release of the same version, which the{' '}
          {isLimited ? 'settings' : <Link to="/settings">settings</Link>} list.
        </Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          {mayAdd && result.answer && result.answer.length > 0 && (
            <StackItem>
              <Button icon={<UploadIcon />} onClick={upload}>
                Upload an ISO
              </Button>{' '}
              <Button variant="secondary" onClick={fetchOne}>
                Fetch an ISO
              </Button>
            </StackItem>
          )}
          <StackItem>
            <UploadList />
          </StackItem>
          <StackItem isFilled>
            <List result={result} onUpload={upload} onFetch={fetchOne} />
          </StackItem>
        </Stack>
      </PageSection>
      {dialog?.name === 'upload' && (
        <Suspense>
          <UploadDialog dropped={dialog.dropped} onClose={close} />
        </Suspense>
      )}
      {dialog?.name === 'fetch' && <FetchDialog onClose={close} />}
    </div>
  );
};

export default OsImagesPage;

/** Fetches the list when an upload ends. */
const useListAfterUploads = (refetch: () => void) => {
  const done = useUploadViews().filter(({ state }) => state === 'done').length;
  useEffect(() => {
    if (done > 0) {
      refetch();
    }
  }, [done, refetch]);
};

type ListProps = { result: AnswerState<OsImage[]>; onUpload: () => void; onFetch: () => void };

const List = ({ result: { answer, error, refetch }, onUpload, onFetch }: ListProps) => {
  const [failure, setFailure] = useState('');
  const [removing, setRemoving] = useState<OsImage>();
  const verify = async (image: OsImage) => {
    setFailure('');
    try {
      await verifyOsImage(image.id);
    } catch (thrown) {
      setFailure(`${nameOf(image)} could not be verified. ${sentenceOf(thrown)}`);
    }
    refetch();
  };
  const uploads = useUploadViews();
  if (!answer) {
    return error ? <Unlisted error={error} onRetry={refetch} /> : <Loading />;
  }
  // Uploads of this browser are shown above, with their actions.
  const images = answer.filter((image) => !isArriving(image) || !uploads.some(({ id }) => id === image.id));
  if (images.length === 0) {
    return uploads.length > 0 ? null : <None onUpload={onUpload} onFetch={onFetch} />;
  }
  return (
    <>
      {failure && (
        <Alert
          isInline
          variant="danger"
          title={failure}
          actionClose={
            <AlertActionCloseButton
              onClose={() => {
                setFailure('');
              }}
            />
          }
        />
      )}
      {error && <Alert isInline isPlain variant="warning" title={`The list may be out of date. ${error.message}`} />}
      <OsImageTable images={images} onVerify={(image) => void verify(image)} onRemove={setRemoving} />
      {removing && (
        <RemoveDialog
          image={removing}
          onClose={() => {
            setRemoving(undefined);
            refetch();
          }}
        />
      )}
    </>
  );
};

const Loading = () => (
  <Bullseye>
    <Spinner aria-label="Loading the OS images" />
  </Bullseye>
);

const Unlisted = ({ error, onRetry }: { error: Error; onRetry: () => void }) => (
  <EmptyState
    status="danger"
    icon={ExclamationCircleIcon}
    titleText="The OS images can't be listed"
    headingLevel="h2"
    data-testid="os-images-error"
  >
    <EmptyStateBody>{error.message}</EmptyStateBody>
    <EmptyStateFooter>
      <EmptyStateActions>
        <Button onClick={onRetry}>Try again</Button>
      </EmptyStateActions>
    </EmptyStateFooter>
  </EmptyState>
);

const None = ({ onUpload, onFetch }: Pick<ListProps, 'onUpload' | 'onFetch'>) => {
  const mayAdd = useMay('admin');
  return (
    <EmptyState icon={CubesIcon} titleText="No OS image yet" headingLevel="h2" data-testid="os-images-empty">
      <EmptyStateBody>
        Landfall generates discovery images from a live ISO of RHEL CoreOS.{' '}
        {mayAdd
          ? "Upload one, drop it here, or add it to the appliance's configuration."
          : 'An administrator can add one.'}
      </EmptyStateBody>
      {mayAdd && (
        <EmptyStateFooter>
          <EmptyStateActions>
            <Button icon={<UploadIcon />} onClick={onUpload}>
              Upload an ISO
            </Button>
          </EmptyStateActions>
          <EmptyStateActions>
            <Button variant="link" onClick={onFetch}>
              Fetch one from a URL or a release
            </Button>
          </EmptyStateActions>
        </EmptyStateFooter>
      )}
    </EmptyState>
  );
};

const RemoveDialog = ({ image, onClose }: { image: OsImage; onClose: () => void }) => (
  <FormDialog
    title={`Remove ${nameOf(image)}?`}
    action="Remove"
    isDanger
    onSend={() => removeOsImage(image.id)}
    onClose={onClose}
  >
    <Content component="p">
      The appliance deletes the file. Discovery images can no longer be generated from it.
    </Content>
  </FormDialog>
);
