import {
  Alert,
  Button,
  ExpandableSection,
  FileUpload,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from '@patternfly/react-core';
import { useEffect, useState, type FormEvent } from 'react';
import { getStatus } from '../shell/appliance';
import { bytes } from '../shell/quantities';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import { useUploads } from './UploadsProvider';
import { isCoreOS, isDigest, isVersion, readVolumeId, versionOf } from './volume';

type Props = {
  /** A file that was dropped on the page. */
  dropped?: File | undefined;
  onClose: () => void;
};

/** Asks for an ISO and what is known of it, and begins its upload. */
export const UploadDialog = ({ dropped, onClose }: Props) => {
  const uploads = useUploads();
  const [file, setFile] = useState(dropped);
  const [version, setVersion] = useState('');
  const [digest, setDigest] = useState('');
  const [isSubmitting, setSubmitting] = useState(false);
  const [refusal, setRefusal] = useState('');
  const verdict = useVerdict(file);
  const digestIsWrong = digest !== '' && !isDigest(digest);
  const told = versionOf(verdict?.volumeId ?? '');
  const shownVersion = told ?? version;
  const versionIsWrong = shownVersion !== '' && !isVersion(shownVersion);
  const versions = useKnownVersions();
  const mayBegin =
    file !== undefined &&
    verdict?.isFine === true &&
    isVersion(shownVersion) &&
    !digestIsWrong &&
    !isSubmitting;

  const begin = async () => {
    if (!file || !mayBegin) {
      return;
    }
    setSubmitting(true);
    setRefusal('');
    try {
      await uploads.add(file, {
        ...(told ? {} : { openshift_version: version }),
        ...(digest ? { sha256: digest.toLowerCase() } : {}),
      });
      onClose();
    } catch (error) {
      setRefusal(sentenceOf(error));
      setSubmitting(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void begin();
  };

  return (
    <Modal isOpen onClose={onClose} variant="small" aria-label="Upload an ISO">
      <ModalHeader
        title="Upload an ISO"
        description="The live ISO of RHEL CoreOS, as Red Hat publishes it for an OpenShift version."
      />
      <ModalBody>
        <Form id="upload-iso" onSubmit={submit}>
          <FormGroup label="File" fieldId="upload-iso-file" isRequired>
            <FileUpload
              id="upload-iso-file"
              hideDefaultPreview
              filename={file?.name ?? ''}
              filenamePlaceholder="Drag an ISO here or choose one"
              browseButtonText="Choose"
              clearButtonText="Clear"
              onFileInputChange={(_, chosen) => {
                setFile(chosen);
              }}
              onClearClick={() => {
                setFile(undefined);
              }}
              validated={verdict && !verdict.isFine ? 'error' : 'default'}
            />
            {verdict && (
              <FormHelperText>
                <HelperText isLiveRegion>
                  <HelperTextItem variant={verdict.isFine ? 'default' : 'error'}>
                    {verdict.sentence}
                  </HelperTextItem>
                </HelperText>
              </FormHelperText>
            )}
          </FormGroup>
          <FormGroup label="OpenShift version" fieldId="upload-iso-version" isRequired>
            <TextInput
              id="upload-iso-version"
              value={shownVersion}
              placeholder="4.20"
              isDisabled={told !== undefined}
              validated={versionIsWrong ? 'error' : 'default'}
              list="upload-iso-versions"
              onChange={(_, text) => {
                setVersion(text.trim());
              }}
            />
            <datalist id="upload-iso-versions">
              {versions.map((one) => (
                <option key={one} value={one} />
              ))}
            </datalist>
            <FormHelperText>
              <HelperText isLiveRegion>
                <HelperTextItem variant={versionIsWrong ? 'error' : 'default'}>
                  {versionHint(told, versionIsWrong)}
                </HelperTextItem>
              </HelperText>
            </FormHelperText>
          </FormGroup>
          <ExpandableSection toggleText="Compare its SHA-256">
            <FormGroup label="SHA-256" fieldId="upload-iso-sha256">
              <TextInput
                id="upload-iso-sha256"
                value={digest}
                validated={digestIsWrong ? 'error' : 'default'}
                onChange={(_, text) => {
                  setDigest(text.trim());
                }}
              />
              <FormHelperText>
                <HelperText isLiveRegion>
                  <HelperTextItem variant={digestIsWrong ? 'error' : 'default'}>
                    {digestIsWrong
                      ? 'A SHA-256 is 64 digits and letters from a to f.'
                      : 'As its publisher gives it: what arrives is compared with it.'}
                  </HelperTextItem>
                </HelperText>
              </FormHelperText>
            </FormGroup>
          </ExpandableSection>
          {refusal && <Alert isInline variant="danger" title={refusal} />}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form="upload-iso" isDisabled={!mayBegin} isLoading={isSubmitting}>
          Upload
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};

const versionHint = (told: string | undefined, isWrong: boolean): string => {
  if (told) {
    return 'The ISO says it.';
  }
  return isWrong
    ? 'A version is two or three numbers with points, such as 4.20 or 4.20.8.'
    : 'ISOs from 4.19 on do not say for which version they are.';
};

const never = () => undefined;

/** The versions of the releases that the appliance knows, without their last number. */
const useKnownVersions = (): string[] => {
  const { answer } = useAnswer(getStatus, never);
  const minors = (answer?.releases ?? []).map(({ openshift_version: one }) => one.split('.').slice(0, 2).join('.'));
  return [...new Set(minors)];
};

type Verdict = { isFine: boolean; sentence: string; volumeId?: string };

/** What the beginning of the file says of it; undefined while it is read, and without one. */
const useVerdict = (file: File | undefined): Verdict | undefined => {
  const [verdict, setVerdict] = useState<{ file: File; verdict: Verdict }>();
  useEffect(() => {
    let isGone = false;
    const look = async (of: File) => {
      const found = await judge(of);
      if (!isGone) {
        setVerdict({ file: of, verdict: found });
      }
    };
    if (file) {
      void look(file);
    }
    return () => {
      isGone = true;
    };
  }, [file]);
  return verdict?.file === file ? verdict?.verdict : undefined;
};

const judge = async (file: File): Promise<Verdict> => {
  let id: string | undefined;
  try {
    id = await readVolumeId(file);
  } catch (error) {
    return { isFine: false, sentence: `The browser can't read ${file.name}: ${sentenceOf(error)}` };
  }
  if (id === undefined) {
    return { isFine: false, sentence: `${file.name} is no ISO.` };
  }
  const size = bytes(file.size);
  return isCoreOS(id)
    ? { isFine: true, volumeId: id, sentence: `${id}, ${size}` }
    : { isFine: true, volumeId: id, sentence: `${id || 'A volume without a name'}, ${size}. It is not called as live ISOs of CoreOS are.` };
};
