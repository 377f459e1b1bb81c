/** The first step of a new cluster is ours: see clusters/NewClusterPage. */
export const NewClusterPage = () => null;

export const NewSingleClusterPage = NewClusterPage;
