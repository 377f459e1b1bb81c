import {
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  Radio,
  TextArea,
  TextInput,
} from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';
import { getStatus } from '../shell/appliance';
import { FormDialog } from '../shell/FormDialog';
import { useAnswer } from '../shell/useAnswer';
import { fetchOsImage, type FetchRequest } from './api';
import { isDigest, isVersion } from './volume';

const architectures = ['x86_64', 'arm64', 'ppc64le', 's390x'];

type From = 'url' | 'release';

/** Makes the appliance fetch an ISO from a URL, or from a release in its mirror. */
export const FetchDialog = ({ onClose }: { onClose: () => void }) => {
  const [from, setFrom] = useState<From>('url');
  const [url, setURL] = useState('');
  const [version, setVersion] = useState('');
  const [digest, setDigest] = useState('');
  const [release, setRelease] = useState('');
  const [architecture, setArchitecture] = useState(architectures[0] ?? '');
  const [pullSecret, setPullSecret] = useState('');
  const versionIsWrong = version !== '' && !isVersion(version);
  const digestIsWrong = digest !== '' && !isDigest(digest);
  const isComplete = from === 'url' ? url !== '' && !versionIsWrong && !digestIsWrong : release !== '';

  const request = (): FetchRequest =>
    from === 'url'
      ? { url, openshift_version: version, sha256: digest.toLowerCase() }
      : { release, cpu_architecture: architecture, pull_secret: pullSecret };

  return (
    <FormDialog
      title="Fetch an ISO"
      about="The appliance fetches the ISO in the background and resumes after a restart."
      action="Fetch"
      isComplete={isComplete}
      onSend={() => fetchOsImage(request())}
      onClose={onClose}
    >
      <FormGroup role="radiogroup" label="From" isInline fieldId="fetch-iso-from">
        {(['url', 'release'] as const).map((one) => (
          <Radio
            key={one}
            id={`fetch-iso-from-${one}`}
            name="fetch-iso-from"
            label={one === 'url' ? 'a URL' : 'a release in the mirror'}
            isChecked={from === one}
            onChange={() => {
              setFrom(one);
            }}
          />
        ))}
      </FormGroup>
      {from === 'url' ? (
        <>
          <Field id="url" label="URL" isRequired hint="http:// or https://">
            <TextInput
              id="fetch-iso-url"
              value={url}
              isRequired
              onChange={(_, text) => {
                setURL(text.trim());
              }}
            />
          </Field>
          <Field
            id="version"
            label="OpenShift version"
            isWrong={versionIsWrong}
            hint={
              versionIsWrong
                ? 'A version has the form 4.20 or 4.20.8.'
                : 'ISOs of 4.19 and later do not contain their version.'
            }
          >
            <TextInput
              id="fetch-iso-version"
              value={version}
              placeholder="4.20"
              validated={versionIsWrong ? 'error' : 'default'}
              onChange={(_, text) => {
                setVersion(text.trim());
              }}
            />
          </Field>
          <Field
            id="sha256"
            label="SHA-256"
            isWrong={digestIsWrong}
            hint={
              digestIsWrong
                ? 'A SHA-256 has 64 digits and letters from a to f.'
                : 'Optional: the appliance compares the ISO with this digest.'
            }
          >
            <TextInput
              id="fetch-iso-sha256"
              value={digest}
              validated={digestIsWrong ? 'error' : 'default'}
              onChange={(_, text) => {
                setDigest(text.trim());
              }}
            />
          </Field>
        </>
      ) : (
        <>
          <Release value={release} onChange={setRelease} />
          <FormGroup label="Architecture" fieldId="fetch-iso-architecture">
            <FormSelect
              id="fetch-iso-architecture"
              value={architecture}
              onChange={(_, chosen) => {
                setArchitecture(chosen);
              }}
            >
              {architectures.map((one) => (
                <FormSelectOption key={one} value={one} label={one} />
              ))}
            </FormSelect>
          </FormGroup>
          <Field id="pull-secret" label="Pull secret" hint="If the mirror requires one.">
            <TextArea
              id="fetch-iso-pull-secret"
              value={pullSecret}
              resizeOrientation="vertical"
              onChange={(_, text) => {
                setPullSecret(text);
              }}
            />
          </Field>
        </>
      )}
    </FormDialog>
  );
};

type FieldProps = {
  id: string;
  label: string;
  hint: string;
  isRequired?: boolean;
  isWrong?: boolean;
  children: ReactNode;
};

const Field = ({ id, label, hint, isRequired = false, isWrong = false, children }: FieldProps) => (
  <FormGroup label={label} fieldId={`fetch-iso-${id}`} isRequired={isRequired}>
    {children}
    <FormHelperText>
      <HelperText isLiveRegion>
        <HelperTextItem variant={isWrong ? 'error' : 'default'}>{hint}</HelperTextItem>
      </HelperText>
    </FormHelperText>
  </FormGroup>
);

const never = () => undefined;

/** A version from the configuration, or any pull spec. */
const Release = ({ value, onChange }: { value: string; onChange: (value: string) => void }) => {
  const { answer } = useAnswer(getStatus, never);
  const versions = [...new Set((answer?.releases ?? []).map((one) => one.openshift_version))];
  return (
    <Field id="release" label="Release" isRequired hint="A version, such as 4.20.8, or a pull spec.">
      <TextInput
        id="fetch-iso-release"
        value={value}
        isRequired
        list="fetch-iso-releases"
        onChange={(_, text) => {
          onChange(text.trim());
        }}
      />
      <datalist id="fetch-iso-releases">
        {versions.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </Field>
  );
};
