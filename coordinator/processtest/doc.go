// Package processtest holds the tests that run real coordinator processes on real servers and break
// them. Processes are killed or stopped between any two of their side effects, or at random.
// Storage jobs are killed before any of their steps, and object stores fail.
//
// The test binary is also the program of those processes (see process_test.go). The places where
// they are killed are not marked in the product's code. Every side effect passes through one of
// three edges: the database, the container backend and the object store. The processes wrap those
// (see points_test.go). testdata/points.txt lists the points with Docker,
// testdata/points-kubernetes.txt those with Kubernetes; after a change of the side effects, write
// them anew:
//
//	make test ARGS='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//	make test-k8s K8S='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//
// Nothing can be forgotten. All that changes something in the source, and every action, operation
// and kind of job of the planner, is in a scenario or an exception. An exception names the test
// that proves it in place of a scenario (see exceptions_test.go and transitions_test.go).
package processtest
