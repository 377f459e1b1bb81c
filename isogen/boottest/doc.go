// Package boottest boots generated images in an emulator. It tests that the content of an image
// reaches the machine. It needs an emulator, boot loaders and a kernel, and therefore has a build
// tag: .ci/install-emulator installs them, and `make test` runs `go test -tags boot` here.
package boottest
