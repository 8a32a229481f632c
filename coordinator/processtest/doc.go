// Package processtest holds the tests that run real coordinator processes on real servers
// and break them: processes that are killed or stopped between any two of their side
// effects, or at random, storage jobs that are killed before any of their steps, and object
// stores that fail.
//
// The test binary is also the program of those processes (see process_test.go). The
// places where they are killed are not marked in the product's code: every side effect
// passes through one of three edges, the database, the container backend and the object
// store, and the processes wrap those (see points_test.go). testdata/points.txt lists the
// points with Docker, testdata/points-kubernetes.txt those with Kubernetes; after a change of
// the side effects, write them anew:
//
//	make test ARGS='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//	make test-k8s K8S='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//
// Nothing can be forgotten: what changes something in the source, and every action, operation and
// kind of job of the planner, is reached by a scenario or is an exception, which names the test
// that proves it in place of one (see exceptions_test.go and transitions_test.go).
package processtest
