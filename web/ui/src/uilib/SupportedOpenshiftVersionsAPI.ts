import Library from 'ui-lib/common/api/assisted-service/SupportedOpenshiftVersionsAPI';
import { getStatus } from '../shell/appliance';
import { installable, whyNoVersion } from '../shell/versions';
import { shareRunning } from './shareRunning';

// Its published types are for another version of axios.
const library = Library as {
  list(latestRelease: boolean): Promise<{ data: Record<string, { default?: boolean }> }>;
};

const readStatus = shareRunning(() => getStatus());

/**
 * The library's request for the installable versions. The library repeats it without a pause while
 * there are none; this version throws an error with the reason. It leaves out versions without a
 * live ISO.
 */
const SupportedOpenshiftVersionsAPI = {
  makeBaseURI: (latestRelease: boolean) => Library.makeBaseURI(latestRelease),
  async list(latestRelease: boolean) {
    const [response, status] = await Promise.all([library.list(latestRelease), readStatus()]);
    const data = installable(response.data, status);
    if (Object.keys(data).length === 0) {
      throw new Error(whyNoVersion(status));
    }
    return { ...response, data };
  },
};

export default SupportedOpenshiftVersionsAPI;
