// Package imagetest tests the appliance's registry with containers/image, the library by which
// CRI-O, podman and skopeo pull images.
package imagetest
