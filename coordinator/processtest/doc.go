// Package processtest runs real coordinator processes on real servers and breaks them. It kills or stops processes
// between any two of their side effects, or at random. It kills storage jobs before any of their steps, and makes
// object stores fail.
//
// The test binary is also the program of those processes (see process_test.go). The product's code has no marks for
// the places where they are killed. Every side effect passes through one of three edges, which the processes wrap:
// the database, the container backend and the object store (see points_test.go). testdata/points.txt lists the points
// with Docker, testdata/points-kubernetes.txt those with Kubernetes. After a change of the side effects, generate
// them anew:
//
//	make test ARGS='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//	make test-k8s K8S='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//
// Nothing can be forgotten. Every function that changes something, and every action, operation and kind of job of the
// planner, is in a scenario or an exception. An exception names the test that covers it instead (see
// exceptions_test.go and transitions_test.go).
package processtest
