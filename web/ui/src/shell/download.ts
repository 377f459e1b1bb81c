/** Makes the browser save what is at a URL as a file. Without a name, the answer names the file. */
export const download = (url: string, name = ''): void => {
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
};

/** Makes the browser save a file that the page has. */
export const save = (name: string, file: Blob): void => {
  const url = URL.createObjectURL(file);
  download(url, name);
  URL.revokeObjectURL(url);
};
