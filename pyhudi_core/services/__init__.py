"""Table services: one file a service, each as plan, schedule and execute; and the doctor, which only looks."""
