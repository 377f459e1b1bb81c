/** The domains of Red Hat's own service. A site has none, so there is nothing to request. */
const ManagedDomainsAPI = {
  list: () => Promise.resolve({ data: [] }),
};

export default ManagedDomainsAPI;
