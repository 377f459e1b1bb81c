import { Checkbox, FormGroup, Spinner } from '@patternfly/react-core';
import { useFormikContext } from 'formik';
import { useEffect, useState } from 'react';
import { Link } from 'react-router-dom-v5-compat';
import TextAreaField from 'ui-lib/common/components/ui/formik/TextAreaField';
import { readSettings } from '../settings/api';
import { useAnswer } from '../shell/useAnswer';

const once = () => undefined;

/**
 * The pull secret of a new cluster: the site's own by default. The library's field asks for the
 * pull secret of a Red Hat account and refers to the internet.
 */
const PullSecret = () => {
  const { answer, error } = useAnswer(readSettings, once);
  const { setFieldValue } = useFormikContext();
  const [hasOwn, setOwn] = useState(false);
  const hasSite = answer?.pull_secret.set ?? false;
  const usesSite = hasSite && !hasOwn;
  useEffect(() => {
    // The schema of the form requires a pull secret unless this is set: see vite.config.ts.
    setFieldValue('usesSitePullSecret', usesSite);
  }, [setFieldValue, usesSite]);
  if (!answer && !error) {
    return <Spinner size="md" aria-label="Reading the site's settings" />;
  }
  return (
    <>
      {hasSite && (
        <FormGroup label="Pull secret" role="group" fieldId="site-pull-secret">
          <p data-testid="site-pull-secret">
            {usesSite ? "The site's pull secret is used." : "The site's pull secret is not used."}
          </p>
          <Checkbox
            id="own-pull-secret"
            label="Use another pull secret for this cluster"
            isChecked={hasOwn}
            onChange={(_, checked) => {
              setOwn(checked);
              setFieldValue('pullSecret', '');
            }}
          />
        </FormGroup>
      )}
      {!usesSite && (
        <TextAreaField
          name="pullSecret"
          label="Pull secret"
          helperText={
            hasSite ? (
              'The credentials for the mirror, as JSON.'
            ) : (
              <>
                The credentials for the mirror, as JSON. Set it for all clusters in the{' '}
                <Link to="/settings#pull-secret">settings</Link>.
              </>
            )
          }
          getErrorText={(text: string) => text}
          rows={10}
          isRequired
        />
      )}
    </>
  );
};

export default PullSecret;
