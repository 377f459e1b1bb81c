import Library from 'ui-lib/common/api/assisted-service/SupportedOpenshiftVersionsAPI';

// Its published types are written for another axios.
const library = Library as { list(latestRelease: boolean): Promise<{ data: object }> };

/**
 * The library's request for the versions that can be installed, which it would repeat without a pause as long as there
 * are none: without a release, that is said.
 */
const SupportedOpenshiftVersionsAPI = {
  makeBaseURI: (latestRelease: boolean) => Library.makeBaseURI(latestRelease),
  async list(latestRelease: boolean) {
    const response = await library.list(latestRelease);
    if (Object.keys(response.data).length === 0) {
      throw new Error(
        'This appliance has no release to install: name one under "release_images" in its configuration and start it again.',
      );
    }
    return response;
  },
};

export default SupportedOpenshiftVersionsAPI;
