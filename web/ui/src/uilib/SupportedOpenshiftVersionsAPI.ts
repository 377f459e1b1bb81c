import Library from 'ui-lib/common/api/assisted-service/SupportedOpenshiftVersionsAPI';

// Its published types are for another version of axios.
const library = Library as { list(latestRelease: boolean): Promise<{ data: object }> };

/**
 * The library's request for the installable versions. The library repeats it without a pause while
 * there are none; this version throws an error if there is no release.
 */
const SupportedOpenshiftVersionsAPI = {
  makeBaseURI: (latestRelease: boolean) => Library.makeBaseURI(latestRelease),
  async list(latestRelease: boolean) {
    const response = await library.list(latestRelease);
    if (Object.keys(response.data).length === 0) {
      throw new Error(
        'This appliance has no release to install: add one to "release_images" in its configuration and ' +
          'restart it. A live ISO alone is not enough.',
      );
    }
    return response;
  },
};

export default SupportedOpenshiftVersionsAPI;
