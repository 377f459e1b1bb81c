import {
  ExpandableSection,
  FileUpload,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
} from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import { getStatus } from '../shell/appliance';
import { FormDialog } from '../shell/FormDialog';
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

/** The dialog to select an ISO and its version, and to start the upload. */
const UploadDialog = ({ dropped, onClose }: Props) => {
  const uploads = useUploads();
  const [file, setFile] = useState(dropped);
  const [version, setVersion] = useState('');
  const [digest, setDigest] = useState('');
  const check = useFileCheck(file);
  const digestIsWrong = digest !== '' && !isDigest(digest);
  const versionOfFile = versionOf(check?.volumeId ?? '');
  const shownVersion = versionOfFile ?? version;
  const versionIsWrong = shownVersion !== '' && !isVersion(shownVersion);
  const versions = useKnownVersions();
  const upload = async () => {
    if (file) {
      await uploads.add(file, {
        ...(versionOfFile ? {} : { openshift_version: version }),
        ...(digest ? { sha256: digest.toLowerCase() } : {}),
      });
    }
  };

  return (
    <FormDialog
      title="Upload an ISO"
      about="The live ISO of RHEL CoreOS, as Red Hat publishes it for an OpenShift version."
      action="Upload"
      isComplete={check?.isFine === true && isVersion(shownVersion) && !digestIsWrong}
      onSend={upload}
      onClose={onClose}
    >
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
          validated={check && !check.isFine ? 'error' : 'default'}
        />
        {check && (
          <FormHelperText>
            <HelperText isLiveRegion>
              <HelperTextItem variant={check.isFine ? 'default' : 'error'}>{check.sentence}</HelperTextItem>
            </HelperText>
          </FormHelperText>
        )}
      </FormGroup>
      <FormGroup label="OpenShift version" fieldId="upload-iso-version" isRequired>
        <TextInput
          id="upload-iso-version"
          value={shownVersion}
          placeholder="4.20"
          isDisabled={versionOfFile !== undefined}
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
              {versionHint(versionOfFile, versionIsWrong)}
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
                  ? 'A SHA-256 has 64 digits and letters from a to f.'
                  : 'From the publisher: the appliance compares the ISO with this digest.'}
              </HelperTextItem>
            </HelperText>
          </FormHelperText>
        </FormGroup>
      </ExpandableSection>
    </FormDialog>
  );
};

const versionHint = (versionOfFile: string | undefined, isWrong: boolean): string => {
  if (versionOfFile) {
    return 'The version comes from the ISO.';
  }
  return isWrong ? 'A version has the form 4.20 or 4.20.8.' : 'ISOs of 4.19 and later do not contain their version.';
};

const never = () => undefined;

/** The minor versions of the configured releases. */
const useKnownVersions = (): string[] => {
  const { answer } = useAnswer(getStatus, never);
  const minors = (answer?.releases ?? []).map(({ openshift_version: one }) => one.split('.').slice(0, 2).join('.'));
  return [...new Set(minors)];
};

type FileCheck = { isFine: boolean; sentence: string; volumeId?: string };

/**
 * The result of checking the beginning of the file; undefined while the check runs, and without a
 * file.
 */
const useFileCheck = (file: File | undefined): FileCheck | undefined => {
  const [check, setCheck] = useState<{ file: File; check: FileCheck }>();
  useEffect(() => {
    let isGone = false;
    const runCheck = async (of: File) => {
      const result = await checkFile(of);
      if (!isGone) {
        setCheck({ file: of, check: result });
      }
    };
    if (file) {
      void runCheck(file);
    }
    return () => {
      isGone = true;
    };
  }, [file]);
  return check?.file === file ? check?.check : undefined;
};

const checkFile = async (file: File): Promise<FileCheck> => {
  let id: string | undefined;
  try {
    id = await readVolumeId(file);
  } catch (error) {
    return { isFine: false, sentence: `The browser can't read ${file.name}: ${sentenceOf(error)}` };
  }
  if (id === undefined) {
    return { isFine: false, sentence: `${file.name} is not an ISO.` };
  }
  const size = bytes(file.size);
  return isCoreOS(id)
    ? { isFine: true, volumeId: id, sentence: `${id}, ${size}` }
    : {
        isFine: true,
        volumeId: id,
        sentence: `${id || 'A volume without a name'}, ${size}. Live ISOs of CoreOS have other names.`,
      };
};

export default UploadDialog;
